"""Sources that are folders or archives of files, each an example."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from tasks.config.base import LISTED, NOT_IDENTITY, IsPath, Name
from tasks.sources.kinds import DataSource
from tasks.sources.kinds.columns import Text

if TYPE_CHECKING:
    from tasks.sources import Source


class TextFilesSource(DataSource, place=1):
    """Text files of a folder, each an example of its raw bytes; its key is its path below the folder."""

    noun: ClassVar[str | None] = "files"
    raw_input: ClassVar[str] = "FILE.txt"
    listed: ClassVar[str] = "files"

    kind: Literal["text_files"] = "text_files"
    """How the source is read."""

    name: Name = "text"
    """Names the records' files."""

    path: Annotated[Text, NOT_IDENTITY, IsPath()]
    """The folder, or an archive that is read in place (`texts.zip`, `texts.tar`, `texts.zip/folder`), relative to the
    preset; `stdlib:` is Python's own standard library. The content enters digests, the path does not."""

    glob: Text = "**/*.txt"
    """Which files below the folder; `**/` is any depth, and as in a shell `*` takes no name that begins with a dot."""

    exclude: Annotated[tuple[Text, ...], LISTED] = ("site-packages", "dist-packages", "test", "tests", "__pycache__")
    """Names of folders and files that are left out at any depth."""

    example: Literal["file", "line", "paragraph"] = "file"
    """What an example is: a file, or each of its lines or paragraphs, which blank lines separate."""

    class_folders: bool = False
    """Whether the first folder below the source's is the class of its files."""

    undecodable: Literal["error", "skip"] = "error"
    """Handling of a text that is not UTF-8: it ends the run, or is left out, counted and named."""

    def open(self, memory: Path | None = None) -> Source:
        """Open the folder."""
        from tasks.sources.folders import TextFiles

        return TextFiles(
            *(self.path, self.glob, self.exclude, memory),
            example=self.example,
            class_folders=self.class_folders,
            skips=self.undecodable == "skip",
        )


class ClassFoldersSource(DataSource, place=1):
    """A folder for each class with its files."""

    listed: ClassVar[str] = "files"

    path: Annotated[Text, NOT_IDENTITY, IsPath()]
    """The folder that holds the class folders, or an archive of it that is read in place (`a.zip`, `a.tar`,
    `a.zip/folder`), relative to the preset; the content enters digests, the path does not."""

    exclude: Annotated[tuple[Text, ...], LISTED] = ()
    """Names of folders and files that are left out at any depth."""

    split_folders: bool = False
    """Whether class folders are in a folder for each split, which `records.splits: official` keeps."""


class ImageFolderSource(ClassFoldersSource):
    """A folder for each class with its images: JPEG, PNG and TIFF of more than 8 bits are kept as they are; GIF (the
    first frame), WebP, BMP and other TIFF become PNG. An example's key is its path."""

    noun: ClassVar[str | None] = "images"
    raw_input: ClassVar[str] = "IMAGE.png"

    kind: Literal["image_folder"] = "image_folder"
    """How the source is read."""

    name: Name = "images"
    """Names the records' files."""

    glob: Text = "**/*"
    """Which files below the folder, of those with the ending of an image (.jpg, .jpeg, .jfif, .png, .gif, .webp, .bmp,
    .tif, .tiff)."""

    def open(self, memory: Path | None = None) -> Source:
        """Open the folder."""
        from tasks.sources.folders import ImageFolder

        return ImageFolder(self.path, self.glob, self.exclude, self.split_folders, memory)


class AudioFolderSource(ClassFoldersSource):
    """A folder for each class with its sounds, WAV, FLAC, Ogg and MP3, which are kept as they are. An example's key is
    its path."""

    noun: ClassVar[str | None] = "sounds"
    raw_input: ClassVar[str] = "SOUND.wav"

    kind: Literal["audio_folder"] = "audio_folder"
    """How the source is read."""

    name: Name = "sounds"
    """Names the records' files."""

    glob: Text = "**/*"
    """Which files below the folder, of those with the ending of a sound (.wav, .flac, .ogg, .mp3)."""

    def open(self, memory: Path | None = None) -> Source:
        """Open the folder."""
        from tasks.sources.folders import AudioFolder

        return AudioFolder(self.path, self.glob, self.exclude, self.split_folders, memory)
