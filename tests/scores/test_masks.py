"""What is masked and what is not, pair by pair, and what real commands print."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lwm_agents.scores import masked
from lwm_agents.values import Action

A, B = "3f2a9c1", "b81e0d7"
LONG_A, LONG_B = "3f2a9c1" + "0" * 32 + "a", "b81e0d7" + "1" * 32 + "c"
SHA = "7d888e51d3b806a6d1cd940cc85b241127bf31a5dc7663493cd6058d34562992"

# left, right, command
ALIKE = [
    # times and dates
    ("at 2026-01-02T03:04:05Z", "at 2025-11-30T13:14:15Z", ""),
    ("2026-01-02 03:04:05.123 up", "2026-01-02 03:04:06.9 up", ""),
    ("2026-01-02 03:04:05 +0000", "2026-01-02 03:04:09 +0100", ""),
    ("2026-01-02 03:04:05,123 INFO start", "2026-01-03 13:04:05,456 INFO start", ""),
    ("2026-01-02 03:04:05 ERROR x", "2026-01-02 03:05:05 ERROR x", ""),
    ("[12:00:01] WARN x", "[23:59:59] WARN x", ""),
    ("Jan  2 03:04:05 box sshd[812]: ok", "Feb 12 13:04:05 box sshd[99]: ok", ""),
    ("Mon Jan  2 03:04:05 UTC 2026", "Tue Dec 12 13:04:05 UTC 2025", ""),
    ("Fri 02 Jan 2026 03:04:05 AM UTC", "Sat 03 Jan 2026 04:04:05 AM UTC", ""),
    ("Date:   Fri Jan 2 03:04:05 2026 +0000", "Date:   Sat Jan 3 13:04:05 2026 +0100", ""),
    ("Date: Fri, 02 Jan 2026 03:04:05 GMT", "Date: Sat, 03 Jan 2026 03:04:05 GMT", ""),
    ("[02/Jan/2026:03:04:05 +0000] GET /", "[03/Jan/2026:03:04:05 +0000] GET /", ""),
    ("-rw-r--r-- 1 root root 5 Jan  2 03:04 a", "-rw-r--r-- 1 root root 5 Nov 30  2025 a", ""),
    ("-rw-r--r-- 1 r r 5 1767323045 a", "-rw-r--r-- 1 r r 5 1767323999 a", "ls -l"),
    ("drwxr-xr-x. 2 u g 4.0K Jan  2 03:04 d", "drwxr-xr-x. 2 u g 4.0K Jan 12 13:04 d", ""),
    ("crw-rw-rw- 1 root root 1, 3 Jan  2 03:04 x", "crw-rw-rw- 1 root root 1, 3 Mar 2 03:04 x", ""),
    ("-rw-r--r-- root/root 5 2026-01-02 03:04 a", "-rw-r--r-- root/root 5 2025-11-12 13:04 a", ""),
    ("Modify: 2026-01-02 03:04:05.678901234 +0000", "Modify: 2026-01-02 03:04:06.1 +0000", ""),
    ("--- a\t2026-01-02 03:04:05.6 +0000", "--- a\t2026-01-02 03:04:07.8 +0000", ""),
    ("author A <a@x> 1767323045 +0000", "author A <a@x> 1767323046 +0000", ""),
    ('{"timestamp": 1767323045}', '{"timestamp": 1767329999}', ""),
    ("created_at: 1767323045123", "created_at: 1767323045999", ""),
    ("a 1767323045.1234567890", "a 1767323046.6543210987", "find . -printf '%p %T@\\n'"),
    ("1767323045.123456", "1767323046.654321", "python3 -c 'print(time.time())'"),
    ("main  3 seconds ago", "main  12 minutes ago", ""),
    ("1767323045", "1767329999", "date +%s"),
    ("20260102", "20251130", "date +%Y%m%d"),
    ("2026", "2025", "date +%Y"),
    ("backup-2026-01-02.tgz", "backup-2025-11-30.tgz", "tar czf backup-$(date +%F).tgz . && ls"),
    (" 03:04:05 up 1 day,  2:03,  1 user,  load average: 0.00, 0.01, 0.05",
     " 13:14:15 up 3 min,  1 user,  load average: 1.00, 0.31, 0.15", "uptime"),
    ("3f2a9c1 1767323045", "b81e0d7 1767323046", "git log --format='%h %ct'"),
    ("2026-01-02 03:04:05", "2025-11-30 13:04:05", "sqlite3 x.db \"select datetime('now')\""),
    ("2026-01-02", "2025-11-30", "python3 -c 'print(datetime.date.today())'"),
    ("datetime.datetime(2026, 1, 2, 3, 4, 5, 6)", "datetime.datetime(2025, 1, 2, 3, 4, 5, 9)", ""),
    # durations
    ("real\t0m0.003s", "real\t1m2.103s", ""),
    ("user 0.01\nsys 0.00", "user 0.01\nsys 0.00", ""),
    ("real 0.01\nuser 0.01\nsys 0.00", "real 1.01\nuser 0.41\nsys 0.20", ""),
    ("=== 3 passed in 0.42s ===", "=== 3 passed in 1.07s ===", ""),
    ("Ran 3 tests in 0.001s", "Ran 3 tests in 0.420s", ""),
    ("Finished in 3 seconds", "Finished in 12 seconds", ""),
    ("took 12 ms", "took 340 ms", ""),
    ("--- PASS: TestX (0.00s)", "--- PASS: TestX (0.12s)", ""),
    ("ok  \texample/pkg\t0.003s", "ok  \texample/pkg\t1.203s", ""),
    ("4 bytes copied, 0.000123 s, 32.5 kB/s", "4 bytes copied, 1.2e-05 s, 333 kB/s", ""),
    ("3 rows in set (0.00 sec)", "3 rows in set (0.12 sec)", ""),
    ("Run Time: real 0.000 user 0.000100 sys 0.000000",
     "Run Time: real 0.010 user 0.002100 sys 0.003000", ""),
    ("64 bytes: icmp_seq=1 ttl=64 time=0.042 ms", "64 bytes: icmp_seq=1 ttl=64 time=1.3 ms", ""),
    # pids and jobs
    ("[1] 12345", "[1] 99", ""),
    ("pid=4242 ok", "pid=17 ok", ""),
    ("kill: (4242) - No such process", "kill: (17) - No such process", ""),
    ("bash: line 1:  4242 Killed   sleep 9", "bash: line 1:    17 Killed   sleep 9", ""),
    ("4242", "17", "sleep 1 & echo $!"),
    ("job 3 at Mon Jan  2 03:04:00 2026", "job 9 at Mon Jan  5 03:04:00 2026", ""),
    ("  PID TTY          TIME CMD\n 4242 pts/0    00:00:00 bash",
     "    PID TTY          TIME CMD\n     17 pts/0    00:00:01 bash", "ps"),
    ("4242 17", "99 98", "echo $$ $PPID"),
    ("1 -> pipe:[163807]", "1 -> pipe:[1904]", ""),
    # temporary names, inodes, devices, ports
    ("/tmp/tmp.Ab3dEf9hIj", "/tmp/tmp.Zz9yXw8vUt", "mktemp"),
    ("/tmp/tmpab12cd_9/x", "/tmp/tmpzz99yy_8/x", ""),
    ("log.aB3dE", "log.xY9zW", "mktemp log.XXXXX"),
    ("/tmp/job-abcdefgh", "/tmp/job-a_bcdefg", "python -c 'tempfile.mkdtemp(prefix=\"job-\")'"),
    ("Device: 8,1\tInode: 131 Links: 1", "Device: 0,42\tInode: 2146457 Links: 1", "stat a"),
    ("131 -rw-r--r-- 1 r r 5 Jan  2 03:04 a", "99131 -rw-r--r-- 1 r r 5 Jan  2 03:04 a", "ls -li"),
    ("131 a\n132 b", "771 a\n772 b", "ls -i"),
    ("a 131", "a 9913", "stat -c '%n %i' a"),
    ("131\n131", "99\n99", "stat -c %i a b"),
    ("Listening on 127.0.0.1:43211", "Listening on 127.0.0.1:59999", ""),
    ("port 43211 (http://0.0.0.0:43211/)", "port 43212 (http://0.0.0.0:43212/)", ""),
    # UUIDs, addresses, commits
    ("9b2f8c1e-1c2d-4e3f-8a4b-5c6d7e8f9a0b", "00000000-1c2d-4e3f-8a4b-5c6d7e8f9a0b", ""),
    ("<object object at 0x7f3a5c0d1e80>", "<object object at 0x104d1e80>", ""),
    ("ptr=0x55d0c0ffee10", "ptr=0x7ffc12345678", ""),
    ('- button "Save" [ref=e5]', '- button "Save" [ref=e12]', ""),
    (f"commit {LONG_A}", f"commit {LONG_B}", ""),
    (f"[main (root-commit) {A}] first", f"[main (root-commit) {B}] first", ""),
    (f"HEAD is now at {A} first", f"HEAD is now at {B} first", ""),
    (f"Updating {A}..{B}\nFast-forward", f"Updating {B}..{A}\nFast-forward", ""),
    (f"object {LONG_A}\ntype commit\ntag v1", f"object {LONG_B}\ntype commit\ntag v1", ""),
    (f"From {LONG_A} Mon Sep 17", f"From {LONG_B} Mon Sep 17", "git format-patch -1 --stdout"),
    (f"Merge: {A} {B}", f"Merge: {B} {A}", ""),
    (f"{A} first\n{B} second", f"{B} first\n{A} second", "git log --oneline"),
    (f"{LONG_A}", f"{LONG_B}", "git rev-parse HEAD"),
    (f"* main {A} first", f"* main {B} first", "git branch -v"),
    (f"Build ID: {LONG_A}", f"Build ID: {LONG_B}", ""),
]  # fmt: skip

APART = [
    # dates and times that are data
    ("2024-05-15", "2024-05-16", "SELECT day FROM trips"),
    ('{"date": "2024-05-15"}', '{"date": "2024-05-16"}', ""),
    ('{"created_at": "2024-05-15T15:00:00"}', '{"created_at": "2024-05-15T16:00:00"}', ""),
    ("departs 09:00:00", "departs 10:00:00", ""),
    ("2020-01-01 10:00:00,42", "2020-01-01 11:00:00,42", "cat readings.csv"),
    ("2020-01-01", "2021-01-01", "date -d 2020-01-01 +%F"),
    ("Modify: 2020-01-01 00:00:00.000000000 +0000", "Modify: 2020-01-02 00:00:00.000000000 +0000",
     "touch -d 2020-01-01 a; stat a"),
    ("-rw-r--r-- 1 root root 5 Jan  2 03:04 a", "-rw-r--r-- 1 root root 6 Jan  2 03:04 a", ""),
    ("-rw-r--r-- 1 root root 5 Jan  2 03:04 a", "-rwxr--r-- 1 root root 5 Jan  2 03:04 a", ""),
    ("-rw-r--r-- 1 root root 5 Jan  2 03:04 a", "-rw-r--r-- 1 root root 5 Jan  2 03:04 b", ""),
    ("at 2026-01-02T03:04:05Z", "at noon", ""),
    ("datetime.datetime(2024, 1, 2, 3, 4, 5)", "datetime.datetime(2024, 1, 2, 3, 4, 6)", ""),
    ("2024-05-15 10:00:00", "2024-05-15 11:00:00", "SELECT datetime(created) FROM t"),
    # numbers, sizes, counts
    ("1767323045", "1767323046", "wc -c disk.img"),
    ("[('Chinese', 1191843539.21875)]", "[('Chinese', 1191843540.21875)]", ""),
    ("hugepages-2048kB/surplus", "hugepages-4096kB/surplus", ""),
    ("total 8", "total 12", ""),
    ("3 files", "4 files", ""),
    ("4.0K\ta", "8.0K\ta", "du -h"),
    ("timeout after 5 seconds", "timeout after 6 seconds", ""),
    ("retry in 5 seconds", "retry in 6 seconds", ""),
    ("timeout: 2.5s", "timeout: 3.5s", ""),
    ("3 passed in 0.42s", "4 passed in 0.42s", ""),
    ("Ran 3 tests in 0.001s", "Ran 2 tests in 0.001s", ""),
    ("4 bytes copied, 0.1 s, 1 kB/s", "5 bytes copied, 0.1 s, 1 kB/s", ""),
    ("[1] 12", "[2] 12", ""),
    ("12", "13", "wc -l a"),
    ("PID\tname\n12\tx", "PID\tname\n12\ty", ""),
    ("process 10 files", "process 12 files", ""),
    ("items[12]: x", "items[13]: x", ""),
    # names
    ("/tmp/tmpdirectory", "/tmp/tmpdirectori", ""),
    ("/tmp/report.backup", "/tmp/report.commit", ""),
    ("tmp.configfile", "tmp.configfilf", ""),
    ("/tmp/tmp.Ab3dEf9hIj/a", "/tmp/tmp.Ab3dEf9hIj/b", ""),
    ("http://localhost:8080", "http://localhost:8081", ""),
    ("port 5432", "port 5433", ""),
    ("kill: (4242) - No such process", "kill: (4242) - Operation not permitted", ""),
    # things that occur twice keep their identity
    ("131 a\n131 b", "131 a\n132 b", "ls -i"),
    ("/tmp/tmp.Ab3dEf9hIj /tmp/tmp.Ab3dEf9hIj", "/tmp/tmp.Ab3dEf9hIj /tmp/tmp.Zz9yXw8vUt", ""),
    # hashes of content, constants, name-based UUIDs
    (f"{SHA}  a", f"{SHA[::-1]}  a", "sha256sum a"),
    ("index 83db48f..bf2a1cc 100644", "index 83db48f..bf2a1cd 100644", "git show"),
    (f"tree {LONG_A}", f"tree {LONG_B}", "git cat-file -p HEAD"),
    (f"100644 blob {LONG_A}\ta", f"100644 blob {LONG_B}\ta", "git ls-tree HEAD"),
    (LONG_A, LONG_B, "git hash-object a"),
    (LONG_A, LONG_B, "md5sum < a"),
    (f"commit {LONG_A}", f"commit {A}", ""),
    (f"{A} first", f"{A} second", "git log --oneline"),
    ("mask 0xdeadbeef", "mask 0xcafebabe", ""),
    ("9b2f8c1e-1c2d-5e3f-8a4b-5c6d7e8f9a0b", "00000000-1c2d-5e3f-8a4b-5c6d7e8f9a0b", ""),
    ('- button "Save" [ref=e5]', '- button "Send" [ref=e5]', ""),
    # what the action says was no surprise
    ("kill: (4242) - No such process", "kill: (17) - No such process", "kill 4242"),
    ("Listening on 127.0.0.1:43211", "Listening on 127.0.0.1:59999", "serve --port 43211"),
    # a mask is no word that a text could hold
    ("⟦time⟧", "2026-01-02T03:04:05Z", ""),
]  # fmt: skip


def run(command: str) -> Action | None:
    return Action(tool="shell", arguments={"command": command}) if command else None


@pytest.mark.parametrize(("left", "right", "command"), ALIKE)
def test_what_no_one_could_predict_is_masked(left: str, right: str, command: str) -> None:
    assert masked(left, run(command)) == masked(right, run(command))


@pytest.mark.parametrize(("left", "right", "command"), APART)
def test_what_could_be_known_is_not(left: str, right: str, command: str) -> None:
    assert masked(left, run(command)) != masked(right, run(command))


@pytest.mark.parametrize(
    ("left", "right"),
    [pair[:2] for pair in ALIKE if pair[2].startswith(("date", "git ", "ls -i", "mktemp l"))],
)
def test_some_of_it_only_where_the_action_asks_for_it(left: str, right: str) -> None:
    if "-rw" not in left and not left.startswith("From"):
        assert masked(left) != masked(right)


def test_a_mask_says_what_it_masks_and_the_rest_stays() -> None:
    assert masked("took 12 ms, 3 files\n  at 0x7f3a5c0d1e80") == (
        "took ⟦duration⟧, 3 files\n  at ⟦address⟧"
    )


def test_what_occurs_twice_is_numbered() -> None:
    text = "131 a\n132 b\n131 c"
    assert masked(text, run("ls -i")) == "⟦inode 1⟧ a\n⟦inode⟧ b\n⟦inode 1⟧ c"


GIT = """git init -qb main . && git config user.email a@example.org && git config user.name A
echo one > a && git add a && git commit -qm first && echo two >> a"""
COMMANDS = [
    "git commit -am second; git log; git log --oneline --graph; git rev-parse HEAD HEAD~1",
    "git stash; git stash list; git stash pop",
    "cat .git/logs/HEAD .git/refs/heads/main; git tag -am x v1; git cat-file -p v1; git show-ref",
    "git reflog; git show HEAD; git cat-file -p HEAD; git blame a",
    "git checkout -q HEAD~0 && git checkout main; git branch -av; git describe --always",
    "git checkout -qb side; git commit -qam x; git checkout -q main; git merge side",
    "ls -la; ls -li; ls -i; stat a; find . -name a -ls; stat -c '%n %i %Y %d' a",
    "date; date +%s; date -u; date +%F_%T; date -R; date -Is",
    "mktemp -d; mktemp -p . notes.XXXXXX; f=$(mktemp); echo $f; echo $f",
    "sleep 0 & echo $!; wait; echo $$",
    "time sleep 0.01; dd if=/dev/zero of=z bs=1 count=2",
    "cat /proc/sys/kernel/random/uuid; python3 -c 'print(object())'",
    'python3 -c \'import os; print(os.stat("a").st_size, os.stat("a")); print(os.getpid())\'',
    "python3 -c 'import tempfile; print(tempfile.mkdtemp(), tempfile.mkdtemp(prefix=\"q-\"))'",
    "cp a b; echo x >> b; diff -u a b; tar cf t.tar a; tar tvf t.tar",
    "bash -c 'kill -9 $$'; ps -o pid,stat,time,comm -p $$",
    "du -b a; wc a; sha256sum a; cat a",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_two_runs_of_a_command_are_the_same_after_masking(command: str, tmp_path: Path) -> None:
    said = []
    for day in ("2026-01-02T03:04:05", "2025-11-30T13:14:15"):
        folder = tmp_path / day[:4] / "work"
        folder.mkdir(parents=True)
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "HOME": str(tmp_path)}
        env |= {"GIT_AUTHOR_DATE": day, "GIT_COMMITTER_DATE": day}
        subprocess.run(["bash", "-c", GIT], cwd=folder, env=env, check=True, capture_output=True)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            capture_output=True,
            text=True,
            env=env,
        )
        said.append(masked(done.stdout + done.stderr, run(command)))
    assert said[0] == said[1]


@given(st.text(max_size=300))
def test_masking_never_fails_and_masks_once(text: str) -> None:
    once = masked(text)
    assert masked(text) == once
    if "⟦" not in once:
        assert once == text.replace("⟦", "〚")


@given(st.from_regex(r"[a-z]{1,8}( [a-z]{1,8}| \d{1,4}){0,6}", fullmatch=True))
def test_plain_words_and_numbers_stay(text: str) -> None:
    assert masked(text) == text


def test_of_very_long_texts_the_ends_are_masked() -> None:
    line = "took 12 ms\n"
    text = masked(line * 100_000)
    assert text.startswith("took ⟦duration⟧\n")
    assert text.endswith("took ⟦duration⟧\n")
    assert "took 12 ms" in text
