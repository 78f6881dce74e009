"""The shapes by which a token alone shows that it is a secret, whatever stands around it.

Each shape begins with a literal, so that candidates are found by one search for all literals at
once (`redaction`): the regular expressions run only where a literal stands. The prefixes and
lengths are those the issuers publish; lengths are lower bounds, because issuers lengthen tokens.
"""

from __future__ import annotations

import base64
import binascii
import re
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

Span = tuple[int, int, str]
"""Start, end and kind of a secret in a text."""


@dataclass(frozen=True)
class Shape:
    """A kind of secret: what it begins with and how it goes on.

    `pattern` is matched where the literal stands; its group `secret`, or all of it, is the secret.
    `inside_word` says that a letter or digit may stand right before it. `check` has the last word.
    """

    kind: str
    literal: str
    pattern: re.Pattern[str]
    inside_word: bool = False
    check: Callable[[str], bool] | None = None


def looks_random(text: str) -> bool:
    """Say whether some run of twelve or more letters and digits has both, as no name of a thing."""
    return any(
        len(run) >= 12 and any(c.isdigit() for c in run) and any(c.isalpha() for c in run)
        for run in re.split(r"[^A-Za-z0-9]+", text)
    )


def _is_basic_credential(text: str) -> bool:
    """Say whether base64 text decodes to `user:password`."""
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and all(byte >= 32 for byte in decoded)


def _shape(
    kind: str,
    literals: str,
    rest: str,
    check: Callable[[str], bool] | None = None,
    *,
    inside_word: bool = False,
    flags: int = 0,
) -> list[Shape]:
    return [
        Shape(kind, literal, re.compile(re.escape(literal) + rest, flags), inside_word, check)
        for literal in literals.split("|")
    ]


_WORD_END = r"(?![A-Za-z0-9])"
_PEM_BODY = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

SHAPES: tuple[Shape, ...] = tuple(
    shape
    for group in (
        # A key whose end was cut off goes on for as long as its lines look like one.
        _shape(
            "private-key",
            "-----BEGIN ",
            rf"{_PEM_BODY}(?:(?:(?!-----BEGIN)[\s\S]){{0,40000}}?-----END {_PEM_BODY}"
            r"|[A-Za-z0-9+/=\s\\:,-]*)",
            inside_word=True,
        ),
        _shape("private-key", "Private-Lines: ", r"\d+\s+(?P<secret>[A-Za-z0-9+/=\s]{40,})"),
        _shape("private-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{50,}"),
        _shape("aws-key", "AKIA|ASIA|ABIA|ACCA", rf"[0-9A-Z]{{16,124}}{_WORD_END}"),
        _shape("aws-key", "ABSK", r"[A-Za-z0-9+/]{100,}={0,2}"),
        _shape("google-key", "AIza", r"[0-9A-Za-z_-]{30,}"),
        _shape("google-key", "GOCSPX-", r"[0-9A-Za-z_-]{20,}"),
        _shape("google-token", "ya29.", r"[0-9A-Za-z_.-]{20,}"),
        _shape("google-token", "1//0", r"[0-9A-Za-z_-]{30,}"),
        _shape("azure-key", "AccountKey=|SharedAccessKey=", r"(?P<secret>[A-Za-z0-9+/%]{20,}=*)"),
        _shape("azure-signature", "?sig=|&sig=", r"(?P<secret>[A-Za-z0-9%+/_-]{20,}=*)",
               inside_word=True),
        _shape("aws-signature", "X-Amz-Signature=|X-Amz-Security-Token=", r"(?P<secret>[^&\s\"']+)",
               inside_word=True),
        _shape("github-token", "ghp_|gho_|ghu_|ghs_|ghr_", r"[A-Za-z0-9_.-]{30,}"),
        _shape("github-token", "github_pat_", r"[A-Za-z0-9_]{22,}"),
        _shape(
            "gitlab-token",
            "glpat-|gldt-|glft-|glrt-|glcbt-|glptt-|glimt-|glagent-|gloas-|glsoat-|GR1348941",
            r"[A-Za-z0-9_.-]{20,}",
        ),
        _shape("slack-token", "xox", r"[abeoprsc](?:\.xox[bp])?-[A-Za-z0-9-]{10,}"),
        _shape("slack-token", "xapp-", r"\d-[A-Za-z0-9-]{20,}"),
        _shape("slack-webhook", "hooks.slack.com/",
               r"(?:services|workflows|triggers)/(?P<secret>[\w/+=-]{20,})"),
        _shape("discord-webhook", "/api/webhooks/", r"\d{15,21}/(?P<secret>[\w-]{40,})",
               inside_word=True),
        _shape("stripe-key", "sk_live_|sk_test_|rk_live_|rk_test_", r"[A-Za-z0-9]{16,}"),
        _shape("stripe-key", "whsec_", r"[A-Za-z0-9+/=]{24,}"),
        _shape("anthropic-key", "sk-ant-", r"[A-Za-z0-9_-]{20,}"),
        _shape("openai-key", "sk-", r"[A-Za-z0-9_-]{20,}", looks_random),
        _shape("huggingface-token", "hf_", r"[A-Za-z0-9]{30,}"),
        _shape("huggingface-token", "api_org_", r"[A-Za-z0-9]{30,}"),
        _shape("npm-token", "npm_", r"[A-Za-z0-9]{36,}"),
        _shape("pypi-token", "pypi-A", r"[A-Za-z0-9_-]{50,}"),
        _shape("sendgrid-key", "SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
        _shape("twilio-key", "SK|AC", rf"[0-9a-f]{{32}}{_WORD_END}"),
        _shape("mailgun-key", "key-", rf"[0-9a-f]{{32}}{_WORD_END}"),
        _shape("telegram-token", ":AA", r"[A-Za-z0-9_-]{33,}", inside_word=True),
        _shape("digitalocean-token", "dop_v1_|doo_v1_|dor_v1_", r"[0-9a-f]{40,}"),
        _shape("databricks-token", "dapi", rf"[0-9a-f]{{32}}(?:-\d)?{_WORD_END}"),
        _shape("shopify-token", "shpat_|shpca_|shppa_|shpss_", r"[0-9a-fA-F]{32,}"),
        _shape("square-token", "sq0atp-|sq0csp-", r"[A-Za-z0-9_-]{22,}"),
        _shape("replicate-token", "r8_", r"[A-Za-z0-9]{36,}"),
        _shape("groq-key", "gsk_", r"[A-Za-z0-9]{40,}"),
        _shape("xai-key", "xai-", r"[A-Za-z0-9]{40,}"),
        _shape("perplexity-key", "pplx-", r"[A-Za-z0-9]{40,}"),
        _shape("langsmith-key", "lsv2_pt_|lsv2_sk_", r"[A-Za-z0-9_]{32,}"),
        _shape("linear-key", "lin_api_", r"[A-Za-z0-9]{32,}"),
        _shape("notion-token", "ntn_", r"[A-Za-z0-9]{40,}"),
        _shape("vault-token", "hvs.|hvb.", r"[A-Za-z0-9_-]{24,}"),
        _shape("terraform-token", ".atlasv1.", r"[A-Za-z0-9_=-]{60,}", inside_word=True),
        _shape("doppler-token", "dp.pt.|dp.st.|dp.ct.|dp.sa.", r"[A-Za-z0-9_.-]{40,}"),
        _shape("pulumi-token", "pul-", r"[0-9a-f]{40,}"),
        _shape("grafana-token", "glsa_|glc_", r"[A-Za-z0-9+/_=]{32,}"),
        _shape("newrelic-key", "NRAK-|NRAA-|NRII-|NRIQ-", r"[A-Za-z0-9_-]{27,}"),
        _shape("sentry-token", "sntrys_|sntryu_", r"[A-Za-z0-9+/=_]{40,}"),
        _shape("postman-key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
        _shape("docker-token", "dckr_pat_|dckr_oat_", r"[A-Za-z0-9_-]{20,}"),
        _shape("figma-token", "figd_", r"[A-Za-z0-9_-]{30,}"),
        _shape("rubygems-key", "rubygems_", r"[0-9a-f]{40,}"),
        _shape("heroku-key", "HRKU-", r"[A-Za-z0-9_-]{36,}"),
        _shape("supabase-key", "sbp_|sb_secret_", r"[A-Za-z0-9_-]{24,}"),
        _shape("planetscale-token", "pscale_tkn_|pscale_pw_|pscale_oauth_", r"[\w.=-]{30,}"),
        _shape("netlify-token", "nfp_", r"[A-Za-z0-9_]{36,}"),
        _shape("atlassian-token", "ATATT3|ATBB|ATCTT3", r"[A-Za-z0-9_=-]{24,}", looks_random),
        _shape("artifactory-key", "AKCp", r"[A-Za-z0-9]{40,}"),
        _shape("alibaba-key", "LTAI", rf"[A-Za-z0-9]{{12,24}}{_WORD_END}"),
        _shape("buildkite-token", "bkua_", r"[0-9a-z]{40}"),
        _shape("tailscale-key", "tskey-", r"[A-Za-z0-9-]{20,}", looks_random),
        _shape("1password-token", "ops_eyJ", r"[A-Za-z0-9_=-]{40,}"),
        _shape("jwt", "eyJ", r"[A-Za-z0-9_=-]{8,}\.[A-Za-z0-9_=-]{8,}(?:\.[A-Za-z0-9_=-]*){0,3}"),
    )
    for shape in group
)  # fmt: skip

_RUN = re.compile(r"[A-Za-z0-9_=-]*")
_AWS_PAIR = re.compile(r"[\"']?[\s,;:|]{1,8}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])")
_SCHEME = re.compile(
    # The user may be missing. A port and path are not a password. A password may hold @ and /, so
    # it ends at the last @ of the address; only where there is none before it, past ? and #.
    r"://[^\s/:@\"'<>\\]{0,200}:(?!\d{1,5}[/?#])"
    r"(?P<secret>(?:(?!://)[^\s\"'<>?#\\]){1,400}|[^\s\"'<>\\]{1,400})@"
)
_PASSWORD = re.compile(r"[^\s\"'<>/@:,;()]{8,128}")
_USER_SIGNS = string.ascii_letters + string.digits + "_.+-"
_HOST = re.compile(r"@(?:localhost\b|[\w-]{1,64}(?:\.[\w-]{1,64})+|[\w-]{1,64}:\d)")
_NOT_A_LOGIN = frozenset({"mailto", "sip", "sips", "xmpp", "acct", "sha256", "sha512"})
_BEARER = re.compile(r"bearer[ \t]+(?P<secret>[A-Za-z0-9_\-.~+/=:]{8,4000})", re.I)
_BASIC = re.compile(r"basic[ \t]+(?P<secret>[A-Za-z0-9+/_-]{8,4000}={0,2})", re.I)


def shaped_secrets(text: str, hits: Iterable[tuple[int, int]]) -> Iterator[Span]:
    """Yield the secrets that begin at the hits: pairs of an index in SHAPES and a position."""
    passed = 0
    for index, start in hits:
        shape = SHAPES[index]
        if start < passed or (start and not shape.inside_word and text[start - 1].isalnum()):
            continue
        match = shape.pattern.match(text, start)
        if match is None:
            if shape.kind == "jwt":  # Nor can what comes later in the same run be one.
                passed = _end(_RUN, text, start)
            continue
        passed = match.end()
        secret = "secret" if "secret" in shape.pattern.groupindex else 0
        if shape.check is None or shape.check(match[secret]):
            yield *match.span(secret), shape.kind
            if shape.kind == "aws-key" and (pair := _AWS_PAIR.match(text, match.end())):
                yield *pair.span(1), "aws-key"


def password_in_address(text: str, start: int) -> Iterator[Span]:
    """Yield the password of an address `scheme://user:password@host` whose `://` is at start."""
    # Most addresses hold no @: the search for one is cheap.
    if text.find("@", start, start + 700) >= 0 and (match := _SCHEME.match(text, start)):
        yield *match.span("secret"), "password"


def password_before_host(text: str, start: int) -> Iterator[Span]:
    """Yield the password of `user:password@host` without a scheme; its `@` is at start.

    Only one with digits and letters: `image:tag@host` and `12:30@place` are none.
    """
    colon = text.rfind(":", max(0, start - 129), start)
    if colon < 0:
        return
    secret = text[colon + 1 : start]
    if (
        any(c.isdigit() for c in secret)
        and any(c.isalpha() for c in secret)
        and _PASSWORD.fullmatch(secret)
        and _HOST.match(text, start)
    ):
        head = text[max(0, colon - 64) : colon]
        user = head[len(head.rstrip(_USER_SIGNS)) :]
        if user and user not in _NOT_A_LOGIN:
            yield colon + 1, start, "password"


def authorization(text: str, start: int) -> Iterator[Span]:
    """Yield what follows `Bearer` or `Basic` outside a header, if it looks random or is base64."""
    bearer, basic = _BEARER.match(text, start), _BASIC.match(text, start)
    if bearer is not None and looks_random(bearer["secret"]):
        yield *bearer.span("secret"), "authorization"
    if basic is not None and _is_basic_credential(basic["secret"]):
        yield *basic.span("secret"), "authorization"


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start
