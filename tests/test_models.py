"""Pulling models, against a hub of our own on loopback."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lwm_agents.errors import Misuse
from lwm_agents.models import ModelError, find_model, list_models, parse_id, pull

sys.path.insert(0, str(Path(__file__).parent / "engines"))

from stub_server import Reply, Request, StubServer

Q4 = b"GGUF four " * 30_000
Q8 = b"GGUF eight " * 50_000


class Hub:
    """The part of the Hugging Face hub that a download needs."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.stated: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        self.cut_at: int | None = None
        self.server = StubServer(self.answer)

    @property
    def url(self) -> str:
        return self.server.url

    def answer(self, request: Request) -> Reply:
        if request.path == "/api/models/org/name":
            return Reply(body={"id": "org/name", "sha": "c0ffee", "siblings": self.siblings()})
        if request.path.startswith("/org/name/resolve/c0ffee/"):
            return self.content(request, request.path.removeprefix("/org/name/resolve/c0ffee/"))
        return Reply(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})

    def siblings(self) -> list[dict[str, Any]]:
        return [
            {
                "rfilename": name,
                "size": self.sizes.get(name, len(content)),
                "blobId": "0" * 40,
                "lfs": {
                    "size": len(content),
                    "sha256": self.stated.get(name, hashlib.sha256(content).hexdigest()),
                    "pointerSize": 134,
                },
            }
            for name, content in self.files.items()
        ]

    def content(self, request: Request, name: str) -> Reply:
        content = self.files[name]
        asked = request.headers.get("Range")
        if self.cut_at is not None:
            cut, self.cut_at = self.cut_at, None
            # Said to be shorter than stated: the download ends early and is not tried again.
            return Reply(200, content[:cut])
        if asked is None:
            return Reply(200, content)
        start = int(asked.removeprefix("bytes=").rstrip("-"))
        span = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return Reply(206, content[start:], {"Content-Range": span})

    def downloads(self) -> list[Request]:
        return [request for request in self.server.requests if "/resolve/" in request.path]


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    hub.files = {
        "README.md": b"hello",
        "name-q4_k_m.gguf": Q4,
        "name-q8_0.gguf": Q8,
        "mmproj-name-f16.gguf": b"GGUF eyes",
    }
    with hub.server:
        yield hub


def test_the_default_is_q4_k_m_and_others_are_named(hub: Hub, tmp_path: Path) -> None:
    got = pull("org/name", folder=tmp_path, endpoint=hub.url)
    assert (got.id, got.quant, got.size) == ("org/name:Q4_K_M", "Q4_K_M", len(Q4))
    assert got.path == tmp_path / "org" / "name" / "name-q4_k_m.gguf"
    assert got.path.read_bytes() == Q4
    other = pull("org/name:q8_0", folder=tmp_path, endpoint=hub.url)
    assert other.path.read_bytes() == Q8
    assert list_models(tmp_path) == [got, other]
    assert find_model("org/name", tmp_path) == got.path
    assert find_model("ORG/name:Q8_0", tmp_path) == other.path


def test_what_is_there_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    for _ in range(2):
        pull("org/name", folder=tmp_path, endpoint=hub.url)
    assert len(hub.downloads()) == 1


def test_an_interrupted_download_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    hub.cut_at = 100_000
    with pytest.raises(
        ModelError, match=r"broke off at 100,000 of 300,000 bytes .*go on from there"
    ):
        pull("org/name", folder=tmp_path, endpoint=hub.url)
    assert list_models(tmp_path) == []
    seen: list[tuple[int, int]] = []
    got = pull(
        "org/name", folder=tmp_path, endpoint=hub.url, progress=lambda *now: seen.append(now)
    )
    assert got.path.read_bytes() == Q4
    assert [request.headers.get("Range") for request in hub.downloads()] == [None, "bytes=100000-"]
    assert seen[0] == (100_000, 300_000)
    assert [p.name for p in got.path.parent.glob(".*.part")] == []


def test_a_changed_file_is_not_mixed_with_the_old_part(hub: Hub, tmp_path: Path) -> None:
    hub.cut_at = 100_000
    with pytest.raises(ModelError):
        pull("org/name", folder=tmp_path, endpoint=hub.url)
    hub.files["name-q4_k_m.gguf"] = Q4[::-1]
    got = pull("org/name", folder=tmp_path, endpoint=hub.url)
    assert got.path.read_bytes() == Q4[::-1]


def test_a_wrong_checksum_is_refused_and_nothing_kept(hub: Hub, tmp_path: Path) -> None:
    hub.stated["name-q4_k_m.gguf"] = "0" * 64
    with pytest.raises(ModelError, match=rf"arrived damaged.*{hashlib.sha256(Q4).hexdigest()}"):
        pull("org/name", folder=tmp_path, endpoint=hub.url)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file() and p.name != ".lock"] == []


def test_progress_counts_all_bytes_once_and_ends_full(hub: Hub, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    pull("org/name", folder=tmp_path, endpoint=hub.url, progress=lambda *now: seen.append(now))
    done = [now for now, _ in seen]
    assert done == sorted(done)
    assert seen[0] == (0, len(Q4))
    assert seen[-1] == (len(Q4), len(Q4))


def test_shards_belong_together(hub: Hub, tmp_path: Path) -> None:
    names = [f"big/name-Q4_K_M-0000{n}-of-00002.gguf" for n in (1, 2)]
    hub.files = {names[1]: b"second", names[0]: b"first!"}
    seen: list[tuple[int, int]] = []
    got = pull("org/name", folder=tmp_path, endpoint=hub.url, progress=lambda *n: seen.append(n))
    assert got.path.name == "name-Q4_K_M-00001-of-00002.gguf"
    assert got.size == 12
    assert seen[-1] == (12, 12)
    assert list_models(tmp_path) == [got]
    (got.path.parent / "name-Q4_K_M-00002-of-00002.gguf").unlink()
    assert list_models(tmp_path) == []


def test_one_file_needs_no_quantisation(hub: Hub, tmp_path: Path) -> None:
    hub.files = {"Only-Model.gguf": b"GGUF"}
    got = pull("org/name", folder=tmp_path, endpoint=hub.url)
    assert got.id == "org/name:Only-Model"
    assert find_model("org/name", tmp_path) == got.path


def test_a_choice_nobody_made_is_misuse_that_lists_it(hub: Hub, tmp_path: Path) -> None:
    hub.files = {"name-Q5_K_M.gguf": b"5", "name.Q8_0.gguf": b"8", "name-bf16.gguf": b"16"}
    with pytest.raises(Misuse) as caught:
        pull("org/name", folder=tmp_path, endpoint=hub.url)
    for name in ("Q5_K_M", "Q8_0", "BF16"):
        assert f"org/name:{name}" in str(caught.value)
    with pytest.raises(Misuse, match="has no Q2_K"):
        pull("org/name:Q2_K", folder=tmp_path, endpoint=hub.url)


def test_a_repository_without_gguf_is_misuse(hub: Hub, tmp_path: Path) -> None:
    hub.files = {"model.safetensors": b"x"}
    with pytest.raises(Misuse, match="holds no .gguf file"):
        pull("org/name", folder=tmp_path, endpoint=hub.url)


def test_an_unknown_repository_is_misuse(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="there is no public model 'org/nobody'"):
        pull("org/nobody", folder=tmp_path, endpoint=hub.url)


def test_no_network_says_which_host(tmp_path: Path) -> None:
    with StubServer(lambda _: None) as server:
        url = server.url
    with pytest.raises(ModelError, match=f"can't reach {url}"):
        pull("org/name", folder=tmp_path, endpoint=url)


@pytest.mark.parametrize("reply", [Reply(403, b"no"), Reply(200, b"<html>"), Reply(200, b"[]")])
def test_a_host_that_is_no_hub(reply: Reply, tmp_path: Path) -> None:
    with StubServer(lambda _: reply) as server, pytest.raises(ModelError, match=server.url):
        pull("org/name", folder=tmp_path, endpoint=server.url)


def test_a_full_disk_says_how_much_is_needed(hub: Hub, tmp_path: Path) -> None:
    hub.sizes["name-q4_k_m.gguf"] = 10**18
    with pytest.raises(ModelError, match=r"disk is full: the model has 1,000,000,000,000 MB and"):
        pull("org/name", folder=tmp_path, endpoint=hub.url)
    assert hub.downloads() == []


def test_two_at_once_fetch_it_once(hub: Hub, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(pull, "org/name", folder=tmp_path, endpoint=hub.url) for _ in "12"]
    assert both[0].result() == both[1].result()
    assert len(hub.downloads()) == 1


def test_a_folder_that_cannot_be_written(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "org").write_text("a file where a folder should be")
    with pytest.raises(ModelError, match="can't write to"):
        pull("org/name", folder=tmp_path, endpoint=hub.url)


def test_a_name_that_leads_out_of_the_folder_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.files = {"../../../evil.gguf": b"GGUF"}
    with pytest.raises(ModelError, match="outside its folder"):
        pull("org/name", folder=tmp_path / "a" / "b", endpoint=hub.url)
    assert not (tmp_path / "evil.gguf").exists()


@pytest.mark.parametrize("name", ["", "name", "org/", "../name", "a/b/c", "org/name:", "org/na me"])
def test_names_that_are_none(name: str, tmp_path: Path) -> None:
    assert parse_id(name) is None
    with pytest.raises(Misuse, match="org/name or org/name:QUANT"):
        pull(name, folder=tmp_path)


def test_a_model_that_was_not_pulled_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="lwm model pull org/name:Q8_0"):
        find_model("org/name:Q8_0", tmp_path)
    assert list_models(tmp_path / "nowhere") == []
