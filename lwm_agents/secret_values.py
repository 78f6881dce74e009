"""Values that only their name gives away: `password=…`, `"api_key": "…"`, `--token …`.

What follows such a name may as well be code (`password = getpass()`), a placeholder (`$TOKEN`,
`<password>`), a type (`token: str`) or prose ("unexpected token: foo"). The rules below prefer to
hide one value too many rather than one too few, except where that would spoil ordinary code.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

from lwm_agents.secret_shapes import Span

NAMES: dict[str, str] = {
    # The name in lower case, and the kind of what it names.
    name: kind
    for kind, names in {
        "password": (
            "password", "passphrase", "passwd", "passcode", "pass", "pwd", "identified by",
        ),
        "secret": ("secret", "credential", "credentials", "_auth", "x-amz-signature"),
        "token": ("token",),
        "api-key": (
            *(
                f"{word}{joint}key"
                for word in ("api", "access", "private", "secret", "account", "signing",
                             "encryption", "master", "auth")
                for joint in ("", "_", "-", " ")
            ),
            "access_key_id",
            "accesskeyid",
        ),
        "authorization": ("authorization",),
        "cookie": ("cookie",),
    }.items()
    for name in names
}  # fmt: skip

COMMANDS: tuple[str, ...] = (
    "curl", "mysql", "mariadb", "sshpass", "redis-cli", "login", "mongo", "sqlcmd", "ldap", "unzip",
)  # fmt: skip
"""Commands that take a password as a bare argument."""

_SUFFIX = (
    r"(?:[_-]?(?:value|string|text|prod(?:uction)?|dev|staging|live|main|root|admin|old|new|"
    r"base64|b64|encoded|hash|plain|confirm(?:ation)?|\d{1,3})){0,2}"
)
_QUOTED = (
    r"[rbfuRBFU]{0,2}(?P<quote>\\{0,3}[\"'`])"
    r"(?P<quoted>(?:(?!(?P=quote))(?:\\[^\r\n]|[^\\\r\n])){0,4000})(?P=quote)"
)
_BARE = r"[^\s\x1b\"'`,;&|<>()\[\]{}\\]"
_ANNOTATION = r":[ \t]*[A-Za-z_][\w.\[\], |]{0,40}?[ \t]*="
_SEPARATED = re.compile(
    # `[None]` is what `aws configure` shows before it asks.
    rf"{_SUFFIX}(?:[ \t]*\[[\w*]{{0,24}}\])?\\{{0,3}}[\"'`]?\]?"
    rf"(?P<separator>[ \t]{{0,8}}(?:{_ANNOTATION}|:=|=>|[=!]==?|=|:|>)[ \t]{{0,8}})"
    rf"(?:{_QUOTED}|\\{{0,3}}[\"'`]?(?P<bare>{_BARE}{{1,4000}}))",
    re.I,
)
_SPACED = re.compile(rf"{_SUFFIX}[ \t]{{1,8}}(?:{_QUOTED}|(?P<bare>(?!-){_BARE}{{1,4000}}))", re.I)
_ENVIRONMENT = re.compile(r"[A-Z0-9_]{0,24}=(?P<bare>[^\s\"'`;|&\\<>]{1,4000})")
_PAIRED = re.compile(
    # `name: DB_PASSWORD` and on the next line `value: …`; the same in JSON, HTML, Terraform.
    rf"{_SUFFIX}\\{{0,3}}[\"']?[ \t]{{0,4}},?\s{{1,60}}\\{{0,3}}[\"']?value\\{{0,3}}[\"']?"
    rf"[ \t]{{0,8}}[:=][ \t]{{0,8}}(?:{_QUOTED}|(?P<bare>{_BARE}{{1,4000}}))",
    re.I,
)
_PAIR_NAME = re.compile(r"(?:name|key)\\{0,3}[\"']?[ \t]*[:=][ \t]*\\{0,3}[\"']?[\w.-]*$", re.I)
_HEADER = re.compile(
    r"\\{0,3}[\"']?[ \t]{0,4}(?P<separator>[:=])(?!=)[ \t]{0,4}\\{0,3}[\"']?"
    r"(?:[A-Za-z][\w-]{2,24}[ \t]+)?(?P<bare>[^\r\n\"'\\]{1,8000})"
)
_ARGUMENTS = r"\s(?:[^\n|;]{0,200}?\s)?"


def _word(name: str) -> str:
    """Match one argument, in quotes or without, into a group of this name or this name and q."""
    quotes = rf"(?P<{name}_>\\{{0,3}}[\"'])"
    return (
        rf"(?:{quotes}(?P<{name}q>(?:(?!(?P={name}_))[^\r\n]){{1,400}})(?P={name}_)"
        rf"|(?P<{name}>[^\s\"'\\-][^\s\"'\\]*))"
    )


_COMMAND = re.compile(
    r"curl\b[^\n|;]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:(?P<curl>[^\s\"']+)"
    rf"|(?:mysql(?:dump|admin|import|show|check)?|mariadb(?:-\w+)?){_ARGUMENTS}-p{_word('mysql')}"
    r"|sshpass\s+-p\s*[\"']?(?P<sshpass>[^\s\"']+)"
    r"|redis-cli\b[^\n|;]{0,200}?\s-a\s+[\"']?(?P<redis>[^\s\"']+)"
    rf"|mongo(?:sh|dump|restore|export|import)?{_ARGUMENTS}-p[ =]?{_word('mongo')}"
    rf"|(?:sqlcmd|unzip){_ARGUMENTS}-P[ ]?{_word('upper')}"
    rf"|ldap(?:search|add|modify|delete|passwd|whoami){_ARGUMENTS}-w[ ]?{_word('ldap')}"
    r"|login\s+\S{1,100}\s+password\s+(?P<netrc>\S+)"
    rf"|login{_ARGUMENTS}-p[ =]?{_word('login')}"
)
# `find / -name mysql -print0` holds no password: the name must begin a command, if need be one
# that another runs (`docker exec db mysql …`), or follow a prompt.
_SEGMENT = re.compile(r"[|;&(`\"'\n]")
_COMMAND_START = re.compile(
    r"[ \t]*(?:(?:[^\n]*[ \t])?(?:[$#%!+]|then|do|else|if|while|exec|time|nohup|sudo|\w+=\S*)[ \t]+"
    r"|(?:sudo|time|nice|nohup|env|docker|docker-compose|podman|kubectl|ssh|watch|timeout)[ \t]"
    r"[^\n]*[ \t])?(?:[\w/.-]*/)?"
)
_PUBLISHED = re.compile(r"[\d.]+(?::\d+){0,2}(?:/\w+)?")
_OF_FIND = re.compile(r"(?:\bfind[ \t](?!.*-exec)|[ \t]-i?(?:name|path)[ \t]).*$")
_LOGGED_INTO = re.compile(
    r"(?:docker|podman|nerdctl|buildah|skopeo|crane|oras|regctl|registry|acr|az|oc|cf|ibmcloud|"
    r"argocd|wrangler|snyk)[ \t]+$"
)

_NO_VALUE = frozenset(
    """
    none null nil true false undefined nan str string int integer bool boolean bytes any object
    optional required secret password passwd token key text varchar char blob hidden masked
    redacted empty missing invalid expired wrong incorrect unknown changed reset ok yes no input
    getpass pw pwd value user data self cls return if else for in and or not is await async new
    const let var function def lambda type float number list dict set tuple path file env default
    unauthorized forbidden denied failed disabled enabled ask prompt stdin credentials credential
    args kwargs username bearer basic
    """.split()  # noqa: SIM905 - a list of words reads better as one
)
# What only begins like a placeholder (`$` and then a password) is none: each has to end like one.
_VARIABLE = r"\$(?:\{[^{}]*\}|[A-Za-z_]+|[A-Z_][A-Z0-9_]*|[\d@*#?$!-])?"
_PLACEHOLDER = re.compile(
    r"[xX]{3,}|(?:%\w|%\(\w+\)\w|\{\w*\}|[:/@ ])+|[*•.…_#?-]+|<[^<>]*>|<"
    rf"|{_VARIABLE}(?:[/:.@_-]?{_VARIABLE})*(?:/[\w./-]*|(?:->|::)[\w>:()-]*|\[[^\[\]]*\])?"
    r"|\$\(.*|\$\{\{?|\$\{\{[^{}]*\}\}|\$\.[A-Za-z_.]*"
    r"|%[A-Za-z]*%?|%\w+%|%[({].*[)}]\w?|\{.*\}|\{|\[.*\][+*?]?|\[|\.\.\.(?:[A-Za-z_.]*|\W.*)"
    r"|@[A-Za-z_]*|@\w{1,2}"
    r"|(?:[A-Z]+_)*(?:PASSWORD|PASSWD|TOKEN|SECRET|KEY|STRING|VALUE|TEXT)",
    re.S,
)
_CODE = re.compile(
    r"(?:os|sys|process|self|this|config|settings|env|args|request|req|ctx|context|options|opts|"
    r"params|data|user|form|vault|secrets?|crypto|body|event|response|res|kwargs|conf|cfg)[.\[].*"
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[(\[].*",
    re.S,
)
_DOTTED = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+")
_IDENTIFIER = re.compile(r"[a-z]+(?:_[a-z]+)+|[a-z]+(?:[A-Z][a-z]+)+")
_PATH = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[\w.@-]+[/\\]?)*+")
_NOT_A_SECRET_TOKEN = re.compile(
    r"(?:next|page|pagination|continu|cursor|start|begin|end|stop|pad|eos|bos|unk|mask|special|sep|"
    r"cls|per|of|num|max|min|first|last|each|unexpected|invalid|sync|image|text|input|output|prompt)"
    r"\w{0,8}[_-]+$",
    re.I,
)
_WORD_SIGNS = string.ascii_letters + string.digits + "_-"
_TAG = re.compile(r"<[\w:.-]*$")
_ASSIGNED_ON = re.compile(r"[ \t]*=")
_PROSE = re.compile(r"[ \t]+[a-z]")

_ENDINGS: dict[str, str] = {
    # The end of a key's name, letters and digits only, and the kind of what it holds.
    **dict.fromkeys(("password", "passwords", "passphrase", "passwd", "passcode"), "password"),
    **dict.fromkeys(("pwd", "pass"), "password"),
    **dict.fromkeys(("secret", "secrets", "secretid", "credential", "credentials"), "secret"),
    "token": "token",
    **dict.fromkeys(("apikey", "apikeys", "accesskey", "accesskeyid", "secretkey"), "api-key"),
    **dict.fromkeys(("accountkey", "signingkey", "encryptionkey", "masterkey"), "api-key"),
    "authkey": "api-key",
    "privatekey": "private-key",
    "authorization": "authorization",
    "auth": "authorization",
    **dict.fromkeys(("cookie", "cookies"), "cookie"),
}
_WHOLE_WORDS = ("pass", "pwd", "auth")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME_SUFFIX = re.compile(r"(?:value|string|prod|production|dev|staging|base64|b64|hash|\d{1,3})$")


def name_hides(name: str) -> str | None:
    """Return the kind of secret that a JSON key of this name holds, or None."""
    words = _CAMEL.sub("_", name).lower()
    if len(words) > 200:
        words = words[-200:]
    joined = _NAME_SUFFIX.sub("", re.sub(r"[^a-z0-9]", "", words))
    for ending, kind in _ENDINGS.items():
        if joined.endswith(ending):
            if kind == "token" and _NOT_A_SECRET_TOKEN.search(words[: words.rfind("token")] + "_"):
                return None
            if ending in _WHOLE_WORDS and not re.search(rf"(?:^|[^a-z]){ending}\d*$", words):
                return None
            return kind
    return None


def words_of(name: str) -> list[str]:
    """Return the words of a name, in lower case: `dbUser_id` is db, user, id."""
    return re.findall(r"[a-z0-9]+", _CAMEL.sub("_", name).lower())


def value_hides(value: str, kind: str) -> bool:
    """Say whether text under a key that hides this kind is a secret, not a placeholder."""
    if not value.strip() or value.startswith("[redacted:") or _PLACEHOLDER.fullmatch(value):
        return False
    if value.lower() in _NO_VALUE:
        return False
    if kind == "token":
        return " " not in value and (len(value) >= 16 or (len(value) >= 6 and not value.isalpha()))
    return True


def command_password(text: str, start: int) -> Iterator[Span]:
    """Yield the password among the arguments of the command whose name stands at start."""
    match = _COMMAND.match(text, start)
    if match is None or match.lastgroup is None:
        return
    group = match.lastgroup
    value = match[group]
    if value.startswith("[redacted:") or _PLACEHOLDER.fullmatch(value):
        return
    segment = _SEGMENT.split(text[max(0, start - 200) : start])[-1]
    if group.startswith("mysql"):
        port = segment.strip() and _PUBLISHED.fullmatch(value)
        if port or _OF_FIND.search(segment) or not _COMMAND_START.fullmatch(segment):
            return
    if group.startswith("login") and not _LOGGED_INTO.search(segment):
        return
    yield *match.span(group), "password"


def named_secret(text: str, start: int, end: int, name: str) -> Iterator[Span]:
    """Yield the value that follows a name of NAMES at start..end, if it is a secret."""
    kind = NAMES[name]
    if pair := _PAIRED.match(text, end):
        if not _PAIR_NAME.search(text[max(0, start - 80) : start]):
            return
        if pair["quoted"] is not None:
            if quoted_hides(pair["quoted"], kind):
                yield *pair.span("quoted"), kind
        elif _is_secret(pair["bare"], kind, "=", "", name):
            yield *pair.span("bare"), kind
        return
    if name in ("authorization", "cookie"):
        yield from _header(text, end, kind)
        return
    if not means_secret(text, start, name):
        return
    head = text[max(0, start - 40) : start]
    if text[start].isupper() and (match := _ENVIRONMENT.match(text, end)):
        if _is_secret(match["bare"], kind, "=", "", name):
            yield *match.span("bare"), kind
        return
    match = _SEPARATED.match(text, end)
    separator = match["separator"] if match else "="
    if match is None:
        flag = _last_word(head).startswith("-")
        # `PASSWORD 'x'` is SQL; without quotes only a flag's value follows a blank.
        if not flag and name not in ("password", "identified by"):
            return
        match = _SPACED.match(text, end)
        if match is None or not (flag or match["quoted"] is not None):
            return
    if separator.strip() == ">" and (match["quoted"] is not None or not _TAG.search(head)):
        return
    if match["quoted"] is not None:
        if quoted_hides(match["quoted"], kind):
            yield *match.span("quoted"), kind
    elif _is_secret(match["bare"], kind, separator, text[match.end() : match.end() + 12], name):
        yield *match.span("bare"), kind


def means_secret(text: str, start: int, name: str) -> bool:
    """Say whether a name at start is one of a secret: `DB_PASS`, not `bypass` or `next_token`."""
    head = text[max(0, start - 40) : start]
    if name in ("pass", "pwd"):
        return _begins_word(head[-1:], text[start])
    word = _last_word(head.rstrip(" ")) + "_"
    return NAMES[name] != "token" or not _NOT_A_SECRET_TOKEN.search(word)


def _last_word(head: str) -> str:
    return head[len(head.rstrip(_WORD_SIGNS)) :]


def _begins_word(before: str, first: str) -> bool:
    """Say whether a short name stands for itself: `DB_PASS`, `dbPass`, not `bypass`."""
    return not before.isalpha() or (before.islower() and first.isupper())


def _header(text: str, end: int, kind: str) -> Iterator[Span]:
    match = _HEADER.match(text, end)
    if match is None or (kind == "cookie" and match["separator"] != ":"):
        return
    value = match["bare"].strip()
    if kind == "cookie":
        found = "=" in value and len(value) >= 16 and "[redacted:" not in value
    else:
        found = len(value) >= 8 and value_hides(value, kind) and not _CODE.fullmatch(value)
    if found:
        yield *match.span("bare"), kind


def quoted_hides(value: str, kind: str) -> bool:
    """Say whether text in quotes, under a name that hides this kind, is a secret."""
    if kind != "password" and (" " in value or len(value) < 6 or not value.strip("0123456789.")):
        return False
    return value_hides(value, kind)


def bare_hides(value: str, kind: str) -> bool:
    """Say whether text without quotes, after a name that hides this kind, is a secret."""
    return _is_secret(value, kind, ":", "", kind)


def _is_secret(value: str, kind: str, separator: str, after: str, name: str) -> bool:
    """Judge a value without quotes. `after` is what follows it, `separator` what came before."""
    value = value.rstrip(".:")
    if not value_hides(value, "") or _CODE.fullmatch(value + after[:1]) or _DOTTED.fullmatch(value):
        return False
    digits = any(c.isdigit() for c in value)
    tight = separator == "="
    if name == "pwd" and _PATH.fullmatch(value):
        return False
    if (
        value.isidentifier()
        and not digits
        and (after[:1] in (",", ")") or _ASSIGNED_ON.match(after))
    ):
        return False  # An argument, `login(password=given)`, or `password = given = ""`.
    varied = digits or not (value.isupper() or value.islower() or value.istitle())
    if kind == "password":
        if tight:
            return True
        if _IDENTIFIER.fullmatch(value) or _PATH.fullmatch(value):
            return False
        return varied or not (":" in separator and _PROSE.match(after))
    if value.isdigit() or _PATH.fullmatch(value):
        return False
    if tight and len(value) >= 4:
        return True
    return len(value) >= 6 and varied and not _IDENTIFIER.fullmatch(value)
