"""Weight clustering (Han et al., arXiv 1510.00149): the weights of a layer take few values, so that gzip finds them.

The file has the same size and speed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tasks.compression.kernels import kernels
from tasks.config.model_methods import Cluster

if TYPE_CHECKING:
    import keras

VERSION = 2


def change(config: Cluster, model: keras.Model) -> None:
    """Replace the weights of each layer by the nearest of its `clusters` values, which k-means places; 0 stays 0, as
    one of them, so that a pruned layer stays pruned.

    The values begin evenly spaced from the smallest weight to the largest one, which keeps large weights better than a
    random start (section 3.2 there). One thread, as sums by several would be in another order.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    for variable in kernels(model):
        weights = np.array(variable)
        placed = weights != 0
        values, count = weights[placed], config.clusters - (not placed.all())
        if np.unique(values).size <= count:
            continue
        start = np.linspace(values.min(), values.max(), count, dtype=np.float32)[:, None]
        with threadpool_limits(1):
            fitted = KMeans(count, init=start, n_init=1).fit(values[:, None])
        weights[placed] = fitted.cluster_centers_[fitted.labels_, 0]
        variable.assign(weights)
