"""What no one could predict, as patterns. The name of a group is the kind of thing it masks.

A pattern is tried on the whole text, with `^` and `$` at line ends. Of a match only the named
groups are masked, so what stands around them must still agree. `when` limits a rule to actions
whose text matches it. `near` lists strings one of which must occur in the text: that keeps the
others quick.

Each rule wants more than a number that could be a time or a pid: the form a tool prints it in, a
word beside it, or an action that asks for it. docs/fidelity.md has an example of each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_DATE = r"\d{4}-\d\d-\d\d"
_CLOCK = r"\d{1,2}:\d\d(?::\d\d)?"
_ZONE = r"(?:Z\b|[+-]\d\d:?\d\d|(?:UTC|GMT|CES?T|[ECMP][SD]T)\b)"
_LEVEL = r"(?=\]?\s+[\[|-]?\s*(?:TRACE|DEBUG|INFO|NOTICE|WARN|ERROR|CRITICAL|FATAL)|\])"
_SECONDS = r"1\d{9}(?:\d{3}|\d{9})?(?:\.\d+)?"
_UNIT = r"(?:ms|us|µs|ns|s|secs?|seconds?|milliseconds?|mins?|minutes?)\b"
_MODE = r"[-dlbcps][-rwxsStT]{9}[.+@]?"
# 0000000 is git's own name for what is not committed.
_HEX = r"(?!0+\b)(?:[0-9a-f]{64}|[0-9a-f]{7,40})(?![0-9a-f])"
# What Linux gives to whoever asks for any port: 32768 to 60999.
_PORT = r"(?:3276[89]|327[7-9]\d|32[89]\d\d|3[3-9]\d{3}|[45]\d{4}|60\d{3})(?!\d)"
_SIGNAL = (
    "(?:Killed|Terminated|Aborted|Hangup|Quit|Segmentation|Bus error|Floating|Illegal"
    "|File size limit|CPU time limit|Alarm clock|User defined|Trace)"
)
_GIT = (
    r"\bgit\b(?![^|;&\n]{0,200}(?:\b(?:ls-tree|ls-files|hash-object|write-tree|cat-file|diff)\b"
    r"|rev-parse \S*(?::|\^\{tree)))"
)
_NO_GIVEN_DATE = r"(?![^|;&\n]{0,200}(?:-d|--date)[ =]?['\"]?@?\d)"

# Words of an action that ask what time it is, other than `date`.
_NOW = (
    r"EPOCH(?:SECONDS|REALTIME)|%\([^)\n]{0,40}\)T|['\"]now['\"]|\bnow\(\)|\bCURRENT_(?:TIME|DATE)"
    r"|\btime\.time\(|\btime\.strftime\(|\b(?:utcnow|today|systime|localtime)\b"
    r"|\bperl\b.{0,200}\btime\b"
)


@dataclass(frozen=True)
class Rule:
    """One pattern, where to look for it, and the actions it is for."""

    pattern: re.Pattern[str]
    near: tuple[str, ...] = ()
    when: re.Pattern[str] | None = None


def _rule(pattern: str, *near: str, when: str = "", ignore_case: bool = False) -> Rule:
    flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0)
    return Rule(re.compile(pattern, flags), near, re.compile(when) if when else None)


TIMES = (
    # A date and a time of day that a clock has written: with a zone, or parts of a second other
    # than nought. `2024-05-15T15:00:00` and `2024-05-15` are data and stay.
    _rule(
        rf"(?P<time>\b{_DATE}[T ]\d\d:\d\d:\d\d(?:\.(?!0+(?!\d))\d+(?: ?{_ZONE})?|,\d{{3}}(?=[ \]])"
        rf"|(?!\.)[ ]?{_ZONE}))",
        "-",
    ),
    _rule(rf"^\[?(?P<time>(?:{_DATE}[T ])?\d\d:\d\d:\d\d){_LEVEL}", ":"),
    _rule(rf"^(?P<time>{_MONTH} [ \d]\d \d\d:\d\d:\d\d) \S+ [\w./-]+(?:\[(?P<pid>\d+)\])?:", ":"),
    _rule(
        rf"(?P<time>\b{_DAY} +{_MONTH} +\d{{1,2}} +{_CLOCK}(?: [AP]M)?(?: {_ZONE})? \d{{4}}"
        r"(?: [+-]\d{4})?)",
        ":",
    ),
    _rule(
        rf"(?P<time>\b{_DAY},? +\d{{1,2}} {_MONTH} +\d{{4}} +{_CLOCK}(?: [AP]M)?"
        rf"(?: {_ZONE})?)",
        ":",
    ),
    _rule(rf"(?P<time>\b\d\d/{_MONTH}/\d{{4}}:\d\d:\d\d:\d\d [+-]\d{{4}})", "/"),
    # ls -l, find -ls, tar -tv; a device has two numbers where a file has its size.
    _rule(
        rf"{_MODE} +(?:\d+ +)?[^\s/]+(?: +[^\s/]+|/\S+) +(?:\d+, *)?[\d.,]+[KMGTPE]? +"
        rf"(?P<time>{_MONTH} +\d{{1,2}} +(?:\d\d:\d\d|\d{{4}})|{_DATE} \d\d:\d\d|1\d{{9}})(?= )",
        "-r",
        "--",
        "dr",
    ),
    _rule(rf"^ +\d+ +(?P<time>{_DATE} \d\d:\d\d) +(?=\S)", ":"),  # unzip -l
    # Seconds since 1970: before a zone or after a word for time. Sums look like them, too.
    _rule(r"(?P<time>\b1\d{9})(?= [+-]\d{4}\b)", "1"),
    _rule(
        rf"\b(?:st_)?(?:timestamp|epoch|time|now|[acm]time|(?:created|updated|modified)(?:_at)?"
        rf"|iat|exp|nbf|ts)[\"']?\s*[:=]\s*[\"']?(?P<time>{_SECONDS})(?!\w)",
        "1",
        ignore_case=True,
    ),
    _rule(r"(?P<time>\b\d+ (?:second|minute|hour)s? ago\b)", " ago"),
    _rule(rf"^ *(?P<time>{_CLOCK}) up +(?P<duration>[^\n]+?), +\d+ users?,", " up "),
    _rule(r"\bload averages?: (?P<load>\d+\.\d+,? \d+\.\d+,? \d+\.\d+)", "load average"),
    # What `date` prints, unless it is told which date.
    _rule(
        rf"(?P<time>\b{_DATE}\b|\b20\d{{6}}(?:[-_T]?\d{{4,6}})?\b|\b\d\d:\d\d(?::\d\d)?\b"
        rf"|\b{_SECONDS}\b)",
        when=rf"(?:^|[\s;&|(`])date\b{_NO_GIVEN_DATE}",
    ),
    _rule(r"^(?P<time>\d{1,19}|[A-Z][a-z]{2,8})$", when=rf"^\s*date\b{_NO_GIVEN_DATE}[^|;&\n]*$"),
    _rule(rf"(?P<time>\b{_DATE}(?:[T ]\d\d:\d\d:\d\d)?\b|\b{_SECONDS}\b)", when=_NOW),
    _rule(rf"(?P<time>\b{_SECONDS}\b)", when=rf"{_GIT}.{{0,200}}%[ac]t"),
    _rule(rf"(?P<time>\b{_SECONDS}\b)", when=r"-printf\b[^|;&\n]{0,200}%[ACT]@"),
    _rule(r"datetime\.datetime\((?P<time>\d{4}(?:, \d+){6})", "datetime"),
)

DURATIONS = (
    _rule(r"^(?:real|user|sys)\s+(?P<duration>\d+m\d+[.,]\d+s|\d+[.,]\d+)$", "real"),
    _rule(
        rf"\b(?:in|took|elapsed|time|duration|runtime)\b[ :=]*(?P<duration>\d+\.\d+ ?{_UNIT})",
        "s",
        ignore_case=True,
    ),
    _rule(
        rf"\b(?:took|elapsed)\b[ :=]*(?P<duration>\d+ ?{_UNIT})", "took", "lapsed", ignore_case=True
    ),
    _rule(
        rf"\b(?:ran|done|finished|completed|built|compiled|passed|failed|succeeded|packages?"
        rf"|tests?|ready)\b[^\n]{{0,60}}? in (?P<duration>\d+ ?{_UNIT})",
        " in ",
        ignore_case=True,
    ),
    _rule(r"\((?P<duration>\d+\.\d+ ?s(?:ec)?)\)", "s)", "sec)"),
    _rule(r"^ok\s+\S+\s+(?P<duration>\d+\.\d+s)$|^FAIL\s+\S+\s+(?P<duration2>\d+\.\d+s)$", "s"),
    _rule(r"copied, (?P<duration>[\d.e-]+ s), (?P<rate>[\d.]+ [kMGT]?i?B/s)", "copied"),
    _rule(r"(?P<rate>\b\d+(?:\.\d+)? ?[kKMGT]i?B/s)(?!\w)", "B/s"),
    _rule(
        r"^(?P<duration>[\d.]+user [\d.]+system [\d:.]+elapsed [\d?]+%CPU) "
        r"\((?P<load>\d+avgtext\+\d+avgdata \d+maxresident)\)k\n"
        r"(?P<load2>\d+inputs\+\d+outputs \(\d+major\+\d+minor\)pagefaults \d+swaps)$",
        "elapsed",
    ),
    _rule(r"(?P<duration>\b[\d.]{1,12}s user [\d.]{1,12}s system \d+% cpu [\d.:]+ total)", " cpu "),
    _rule(r"\b(?P<count>\d+) loops, best of \d+: (?P<duration>[\d.]+ [mun]?sec) per loop", "loops"),
    _rule(
        r"^Run Time: real (?P<duration>\S+) user (?P<duration2>\S+) sys (?P<duration3>\S+)$",
        "Run Time",
    ),
    _rule(r"\btime[=<](?P<duration>\d+(?:\.\d+)? ms)", "time"),
)

NAMES = (
    _rule(r"^\[\d+\][+-]? +(?P<pid>\d{2,7})(?=\s|$)", "["),
    _rule(r"\bpid\b[\"']?[ :=#]{0,3}(?P<pid>\d{1,7})\b", "pid", "PID", "Pid", ignore_case=True),
    _rule(r"\bprocess(?: id)?[ :=#]+(?P<pid>\d{2,7})\b(?! *[A-Za-z])", "rocess", ignore_case=True),
    _rule(r"\bkill: \((?P<pid>\d+)\)", "kill"),
    _rule(r"/proc/(?P<pid>\d+)\b", "/proc/"),
    _rule(rf"\bline \d+: +(?P<pid>\d{{1,7}}) {_SIGNAL}", "line"),
    _rule(
        r"^(?P<pid>\d{1,7})(?: (?P<pid2>\d{1,7}))?$",
        when=r"\$\$|\$!|\$\{?(?:BASH|P)PID|\bgetp?pid\b|\b(?:pgrep|pidof)\b",
    ),
    _rule(r"^job (?P<job>\d+) at ", "job "),
    _rule(r"\bInode: (?P<inode>\d+)", "Inode"),
    _rule(r"\bDevice: (?P<device>\S+)", "Device"),
    _rule(rf"^ *(?P<inode>\d+) +(?:\d+ +)?(?={_MODE} )", "-r", "--", "dr"),
    _rule(r"\b(?:pipe|socket):\[(?P<inode>\d+)\]", "pipe:[", "socket:["),
    _rule(r"\bst_ino=(?P<inode>\d+)", "st_ino"),
    _rule(r"\bst_dev=(?P<device>\d+)", "st_dev"),
    _rule(r"\"(?:ino|inode)\": ?(?P<inode>\d+)", '"ino'),
    _rule(r"^ *(?P<inode>\d+) (?=\S)", when=r"\bls\b[^|;&\n]{0,200} -[A-Za-z]*i"),
    # mktemp's and Python's tempfile's own names; some digit or capital tells them from words.
    _rule(r"(?<!\w)tmp\.(?P<temporary>(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{10})(?![A-Za-z0-9])", "tmp."),
    _rule(
        r"(?<![A-Za-z0-9_])tmp(?P<temporary>(?!_)(?=[a-z]*[0-9_])[a-z0-9_]{8})(?![a-z0-9_])", "tmp"
    ),
    _rule(
        r"(?<![A-Za-z0-9_])tmp(?P<temporary>[a-z0-9_]{8})(?![a-z0-9_])",
        "tmp",
        when=r"\btempfile\b|\bmk[ds]temp\(",
    ),
    _rule(rf"(?:\blocalhost|\b\d{{1,3}}(?:\.\d{{1,3}}){{3}}|\[::1?\]|\*):(?P<port>{_PORT})", ":"),
    _rule(rf"\bport[\"']?[ :=]+(?P<port>{_PORT})", "ort", "ORT", ignore_case=True),
    _rule(rf"\('[\d.]+', (?P<port>{_PORT})\)", "('"),
    # Random and time-based UUIDs; versions 3 and 5 are hashes of a name and stay.
    _rule(
        r"(?P<uuid>\b[0-9a-f]{8}-[0-9a-f]{4}-[1467][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})\b",
        "-",
        ignore_case=True,
    ),
    _rule(r"\[ref=(?P<ref>[A-Za-z0-9]+)\]", "[ref="),
    _rule(r"\bat (?P<address>0x[0-9A-Fa-f]{6,16})\b", " 0x"),
    _rule(r"(?P<address>\b0x0{0,4}(?:5[56]|7[ef])[0-9a-f]{10})\b", "0x"),
)

COMMITS = (
    _rule(rf"\bcommit (?P<commit>{_HEX})", "commit "),
    _rule(
        rf"\b(?:HEAD is now at|HEAD detached (?:at|from)|HEAD position was|\(was|WIP on \S+:"
        rf"|[Rr]evision) (?P<commit>{_HEX})",
        "HEAD",
        "(was",
        "WIP",
        "evision",
    ),
    _rule(rf"^Merge: (?P<commit>{_HEX}) (?P<commit2>{_HEX})", "Merge"),
    _rule(rf"^object (?P<commit>{_HEX})\ntype commit$", "object "),
    _rule(rf"^From (?P<commit>{_HEX}) ", "From "),
    _rule(rf"^parent (?P<commit>{_HEX})$", "parent"),
    _rule(rf"^(?:Updating | +|\+ )(?P<commit>{_HEX})\.\.\.?(?P<commit2>{_HEX})(?=$| )", ".."),
    _rule(rf"^\[[^\]\n]{{1,100}} (?P<commit>{_HEX})\] ", "["),
    _rule(rf"^Dropped \S+ \((?P<commit>{_HEX})\)", "Dropped"),
    _rule(rf"\bmoving from (?P<commit>{_HEX}) to ", "moving from"),
    _rule(rf"\bmoving from \S+ to (?P<commit>{_HEX})$", "moving from"),
    _rule(rf"\bbuild[ -]?id(?:\[\w+\])?[ :=]+(?P<commit>{_HEX})", "uild", ignore_case=True),
    _rule(rf"^(?:[*|/\\_ ]*[<>+=^-]? ?)(?P<commit>{_HEX})(?=[\s)]|$)", when=_GIT),
    _rule(
        rf"^(?:0{{40}}|(?P<commit>{_HEX}))(?: (?P<commit2>{_HEX}))?(?= |$)",
        when=r"\.git/(?:logs|refs|packed-refs|[A-Z_]*HEAD)",
    ),
    _rule(r"'(?P<commit>[0-9a-f]{40})'", when=_GIT),
    _rule(rf"^[*+ ] (?:\([^)\n]*\)|\S+) +(?P<commit>{_HEX}) ", when=rf"{_GIT}.{{0,200}}\bbranch\b"),
    _rule(rf"-g(?P<commit>{_HEX})$", when=rf"{_GIT}.{{0,200}}\bdescribe\b"),
    _rule(rf" (?P<commit>{_HEX}) +[\[(]", when=rf"{_GIT}.{{0,200}}\bworktree\b"),
)

RULES = (*TIMES, *DURATIONS, *NAMES, *COMMITS)
