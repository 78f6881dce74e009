"""Model files on this machine, and getting them from the Hugging Face hub.

A model is named as on the hub: `org/name` or `org/name:QUANT`. Its files lie under the user's data
directory as `models/org/name/FILE.gguf`. A download is kept when it breaks off and goes on from
there (huggingface_hub throws partial files away), and counts only once its SHA-256 is what the hub
says it is.
"""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from platformdirs import user_data_path

from lwm_agents.errors import LwmError, Misuse

DEFAULT_QUANT = "Q4_K_M"
"""The quantisation taken where a repository has several and none is named."""

Progress = Callable[[int, int], None]
"""Told the bytes there are so far and the bytes there will be, over all files of the model."""

_ID = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?::(?P<quant>[\w-]+))?")
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})(?=\.gguf$)")
_QUANT = re.compile(r"(?:^|[-._])((?:UD-)?I?Q\d+(?:_\w+)*|BF16|F16|F32|FP16|MXFP4(?:_\w+)*)$", re.I)
_NOT_MODELS = ("mmproj", "imatrix")


class ModelError(LwmError):
    """A model could not be fetched: no network, a full disk, a wrong checksum."""


@dataclass(frozen=True)
class ModelFile:
    """A model on this machine. `size` is bytes, shards included; `path` its (first) file."""

    id: str
    quant: str
    path: Path
    size: int


@dataclass(frozen=True)
class _Remote:
    """A file in a repository, with the size and SHA-256 the hub states."""

    name: str
    size: int
    sha256: str | None


def models_folder() -> Path:
    """Return where pulled models lie: `models` in the user's data directory."""
    return user_data_path("lwm-agents", appauthor=False) / "models"


def parse_id(text: str) -> tuple[str, str | None] | None:
    """Return repository and quantisation of `org/name[:QUANT]`, or None for any other text."""
    found = _ID.fullmatch(text)
    return (found["repo"], found["quant"]) if found else None


def list_models(folder: Path | None = None) -> list[ModelFile]:
    """Return the models pulled so far, sorted by name. Partial downloads are left out."""
    folder = folder or models_folder()
    found = []
    for repo in sorted(folder.glob("*/*")):
        here = {str(p.relative_to(repo)): p for p in repo.rglob("*.gguf") if p.is_file()}
        for quant, names in _groups(here).items():
            if all(name in here for name in _whole(names[0])):
                size = sum(here[name].stat().st_size for name in names)
                name = str(repo.relative_to(folder).as_posix())
                found.append(ModelFile(f"{name}:{quant}", quant, here[names[0]], size))
    return found


def find_model(model: str, folder: Path | None = None) -> Path:
    """Return the file of a model that was pulled.

    Raises Misuse with the command that gets it where it was not, or where several were and none
    is the default.
    """
    repo, quant = _parsed(model)
    quants = {
        m.quant: [m.path]
        for m in list_models(folder)
        if m.id.lower().startswith(f"{repo}:".lower())
    }
    if not quants or (quant and quant.lower() not in {q.lower() for q in quants}):
        raise Misuse(f"{model} is not on this machine; get it with: lwm model pull {model}")
    return quants[_chosen(repo, quant, quants)][0]


def pull(
    model: str,
    *,
    folder: Path | None = None,
    endpoint: str | None = None,
    token: str | None = None,
    progress: Progress | None = None,
) -> ModelFile:
    """Fetch a model from the hub and return it; one that is there already is only checked for size.

    `endpoint` is another hub's URL (default: `HF_ENDPOINT`, or huggingface.co). Safe when two run
    at once. Raises Misuse where the name is wrong or fits no or several files, ModelError where
    the network, the disk or a checksum fails.
    """
    from filelock import FileLock

    repo, quant = _parsed(model)
    remote, revision = _remote_files(repo, endpoint, token)
    groups = _groups(remote)
    if not groups:
        raise Misuse(
            f"{repo} holds no .gguf file; look for a repository of the same model whose name ends"
            " in -GGUF"
        )
    chosen = _chosen(repo, quant, groups)
    files = [remote[name] for name in groups[chosen]]
    target = (folder or models_folder()) / repo
    total, done = sum(file.size for file in files), 0
    try:
        target.mkdir(parents=True, exist_ok=True)
        with FileLock(target / ".lock"):
            for file in files:
                report = _Reporter.of(progress, done, total)
                _fetch(repo, revision, file, target, endpoint, token, report)
                done += file.size
    except OSError as error:
        raise _explained(error, target, total) from None
    if progress is not None:
        progress(total, total)
    return ModelFile(f"{repo}:{chosen}", chosen, target / files[0].name, total)


def _parsed(model: str) -> tuple[str, str | None]:
    parsed = parse_id(model)
    if parsed is None:
        raise Misuse(f"a model is named org/name or org/name:QUANT, as on the hub: {model!r}")
    return parsed


def _quant_of(name: str) -> str:
    stem = _SHARD.sub("", Path(name).name).removesuffix(".gguf")
    found = _QUANT.search(stem)
    return found[1].upper() if found else stem


def _groups(names: Iterable[str]) -> dict[str, list[str]]:
    """Sort file names by quantisation; the shards of one model belong together, in order."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda n: (n.count("/"), n)):
        plain = Path(name).name.lower()
        if not plain.endswith(".gguf") or any(word in plain for word in _NOT_MODELS):
            continue
        group = groups.setdefault(_quant_of(name), [])
        # A second copy of the same quantisation, in a folder further down, is left out.
        if not group or _SHARD.sub("", group[0]) == _SHARD.sub("", name):
            group.append(name)
    return groups


def _whole(first: str) -> list[str]:
    """Return the names of all shards of the model whose first file this is."""
    shard = _SHARD.search(first)
    if shard is None:
        return [first]
    count = int(shard[2])
    return [_SHARD.sub(f"-{i:05}-of-{count:05}", first) for i in range(1, count + 1)]


def _chosen(repo: str, quant: str | None, groups: Mapping[str, object]) -> str:
    if quant is None and len(groups) == 1:
        return next(iter(groups))
    wanted = (quant or DEFAULT_QUANT).upper()
    if wanted in groups:
        return wanted
    # A file without a quantisation in its name goes by its stem, as it is spelt.
    for name in groups:
        if name.upper() == wanted:
            return name
    raise Misuse(
        f"{repo} has no {wanted}; name one of: {', '.join(f'{repo}:{name}' for name in groups)}"
    )


def _remote_files(
    repo: str, endpoint: str | None, token: str | None
) -> tuple[dict[str, _Remote], str]:
    """Return the files of a repository by name, and the commit they belong to."""
    from huggingface_hub import HfApi
    from huggingface_hub import constants as hub
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        GatedRepoError,
        HfHubHTTPError,
        HTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    where = endpoint or hub.ENDPOINT
    try:
        info = HfApi(endpoint=endpoint, token=token).model_info(
            repo, files_metadata=True, timeout=30
        )
    except GatedRepoError:
        raise Misuse(
            f"{repo} asks you to accept its terms: {where}/{repo} (and to log in: hf auth login)"
        ) from None
    except RepositoryNotFoundError:
        raise Misuse(f"there is no public model {repo!r} at {where}") from None
    except HfHubHTTPError as error:
        raise ModelError(f"{where} answered: {str(error).splitlines()[0]}") from None
    except (HTTPError, OfflineModeIsEnabled, OSError) as error:
        raise ModelError(f"can't reach {where}: {_line(error)}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{where} answered with what is no model's page: {_line(error)}") from None
    files = {
        s.rfilename: _Remote(s.rfilename, s.size or 0, s.lfs.sha256 if s.lfs else None)
        for s in info.siblings or []
    }
    return files, info.sha or "main"


def _fetch(
    repo: str,
    revision: str,
    file: _Remote,
    target: Path,
    endpoint: str | None,
    token: str | None,
    report: type[_Reporter],
) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        HfHubHTTPError,
        HTTPError,
    )
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    path = target / file.name
    # The hub chose this name: it must not lead out of the folder.
    if not path.resolve().is_relative_to(target.resolve()):
        raise ModelError(f"{repo} names a file outside its folder: {file.name!r}")
    if file.sha256 is None or not file.size:
        raise ModelError(f"the hub states no checksum or size for {repo}/{file.name}")
    if path.is_file() and path.stat().st_size == file.size:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{file.sha256[:16]}.part")
    there = part.stat().st_size if part.exists() else 0
    if there > file.size:
        part.unlink()
        there = 0
    if shutil.disk_usage(path.parent).free < file.size - there:
        raise OSError(errno.ENOSPC, "not enough room")
    url = hf_hub_url(repo, file.name, revision=revision, endpoint=endpoint)
    try:
        with part.open("r+b" if there else "wb") as out:
            out.seek(there)
            http_get(
                url,
                out,
                resume_size=there,
                headers=build_hf_headers(token=token),
                expected_size=file.size,
                tqdm_class=cast(Any, report),
            )
    except HfHubHTTPError as error:
        raise ModelError(f"{url} answered: {str(error).splitlines()[0]}") from None
    except HTTPError as error:
        raise ModelError(_broken_off(file, part, error)) from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise ModelError(_broken_off(file, part, error)) from None
    if (found := _sha256(part)) != file.sha256:
        part.unlink()
        raise ModelError(
            f"{repo}/{file.name} arrived damaged: its SHA-256 is {found}, the hub says"
            f" {file.sha256}. It was deleted; pull again"
        )
    part.replace(path)


def _broken_off(file: _Remote, part: Path, error: Exception) -> str:
    return (
        f"the download of {file.name} broke off at {part.stat().st_size:,} of {file.size:,} bytes"
        f" ({_line(error)}); pull again to go on from there"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _line(error: Exception) -> str:
    """Return the first line of what an error says, or its name where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _explained(error: OSError, target: Path, total: int) -> ModelError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        existing = next(p for p in (target, *target.parents) if p.exists())
        free = shutil.disk_usage(existing).free
        return ModelError(
            f"the disk is full: the model has {total / 1e6:,.0f} MB and {target} has room for"
            f" {free / 1e6:,.0f} MB"
        )
    return ModelError(f"can't write to {target}: {error.strerror or error}")


class _Reporter:
    """What huggingface_hub takes for a progress bar; passes the numbers on to a callback."""

    callback: Progress | None = None
    before = 0
    everything = 0

    @staticmethod
    def of(callback: Progress | None, before: int, everything: int) -> type[_Reporter]:
        """Return a class, as huggingface_hub wants one, that reports to this callback."""
        here = {
            "callback": staticmethod(callback) if callback else None,
            "before": before,
            "everything": everything,
        }
        return type("Reporter", (_Reporter,), here)

    def __init__(self, *_: object, initial: int = 0, **__: object) -> None:
        self._done = initial
        self.update(0)

    def update(self, count: float | None = 1) -> None:
        """Take the bytes that arrived since the last call."""
        self._done += int(count or 0)
        if self.callback is not None:
            self.callback(self.before + self._done, self.everything)

    def close(self) -> None:
        """Do nothing: there is no bar to take down."""

    def __enter__(self) -> _Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
