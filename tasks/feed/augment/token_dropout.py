"""`token_dropout`: tokens become padding, words unknown ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.config.augment import TokenDropout
from tasks.feed.augment import Change, Values
from tasks.feed.augment.draws import Draws
from tasks.reader.tokens import PADDING


def create(config: TokenDropout, feature: dict[str, Any]) -> Change:
    """Return the change of ids [n, length]."""
    limit, lost = np.uint64(int(config.share * 2**32)), feature.get("unknown", PADDING)

    def change(values: Values, draws: Draws) -> Values:
        length = values.shape[1]
        words = draws.words(0, -(-length // 2)).astype("<u8").view("<u4")[:, :length]
        return np.where((words < limit) & (values != PADDING), values.dtype.type(lost), values)

    return change
