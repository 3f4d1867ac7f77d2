"""What every format of a deployable model has: facts, writing, a check of files of others, and running."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import keras

    from tasks.exporting.preprocess import Preprocess
    from tasks.models.forward import Function

TRUST = "use an export from a source that you trust"
"""What to do with a file that does not pass `check`."""


class Format:
    """A format; an instance is a file that is loaded: a function from a batch by name to outputs, each [B, *shape].

    Its file imports no package outside of methods, and this project only in `write` and `check`, besides the files of
    this folder, relatively: a fresh process that cannot import this project loads it by its path, to verify an export.

    With a signature `raw` it has the methods `raw` and `preprocess`, which take raw columns by name, and with `decode`
    a method `run`, which takes the name of a signature and its inputs by name.
    """

    kind: ClassVar[str]
    """Its name in `export.formats`; the float variant in a format has the format's name."""
    place: ClassVar[int] = 50
    """Its place in the lists of formats; those of one place follow one another by name."""
    about: ClassVar[str] = ""
    """What it is, in a few words."""

    file: ClassVar[str]
    """Name of the file or folder in a variant and in an export."""
    parent: ClassVar[str | None] = None
    """The format that it is converted from; None for the Keras model itself."""
    extra: ClassVar[str | None] = None
    """The extra of this project that installs its packages; None where they always are."""
    libraries: ClassVar[tuple[str, ...]]
    """The packages that write and run it, whose versions decide its bytes and its answers."""
    packages: ClassVar[tuple[str, ...]]
    """Those that a user needs to run it, besides NumPy."""
    runtimes: ClassVar[tuple[str, ...]]
    """Their modules. A fresh process can import neither TensorFlow nor Keras where they are not among them."""
    shares_threads: ClassVar[bool] = True
    """Whether it runs on the threads of the process, and not on a number of its own."""

    code: ClassVar[str]
    """Code of an export's README that loads a file and defines `predict`, with the fields that `readme` fills."""
    run_code: ClassVar[str] = ""
    """Code that defines `run(signature, inputs)` after that; "" where the format has no further signatures."""

    @staticmethod
    def write(
        model: keras.Model,
        preprocess: Preprocess | None,
        parent: Path | None,
        target: Path,
        functions: Sequence[Function] = (),
    ) -> None:
        """Write the float model to `target`, from Keras or from the parent's file, and its preprocessing and further
        functions where it can hold them, as signatures."""
        raise NotImplementedError

    @staticmethod
    def check(path: Path) -> None:
        """Raise `Failed` for a file that could do more than compute; called before it is loaded in our processes.

        A file may be of somebody else: `millrace predict` takes any folder, and a registry is filled by others.
        """
        raise NotImplementedError

    def __init__(self, path: Path, threads: int) -> None:
        """Load a file, for a number of threads where the format has threads of its own."""
        raise NotImplementedError

    @property
    def interface(self) -> dict[str, Any]:
        """The `signatures`; `inputs` and `outputs`: by name shape and dtype.

        A format that keeps the weights by their paths also has their `weights_sha256`, that of the model's manifest.
        """
        raise NotImplementedError

    def __call__(self, batch: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def kinds(cls) -> dict[str, type[Format]]:
        """Return the formats that have been imported, by `kind`, in the order of their places."""
        found = [form for each in cls.__subclasses__() for form in (each, *each.kinds().values())]
        return {form.kind: form for form in sorted(found, key=lambda form: (form.place, form.kind))}
