import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import SECRETS

from lwm_agents.digests import canonical
from lwm_agents.redaction import (
    redact,
    redact_action,
    redact_bytes,
    redact_json,
    redact_tool,
    suspicious,
)
from lwm_agents.secret_shapes import SHAPES
from lwm_agents.values import Action, ToolSpec


@pytest.mark.parametrize("name", SECRETS)
def test_a_planted_secret_is_gone_and_what_stood_around_it_stays(name: str) -> None:
    secret, text = SECRETS[name]
    redacted = redact(text)
    assert secret not in redacted
    assert "[redacted:" in redacted
    assert redacted.startswith(text.partition(secret)[0][:8])
    assert suspicious(text)


@pytest.mark.parametrize("name", SECRETS)
def test_a_planted_secret_is_gone_from_bytes_and_from_json(name: str) -> None:
    secret, text = SECRETS[name]
    assert secret.encode() not in redact_bytes(b"\xff\x00 \n" + text.encode() + b"\n\xfe")
    value = {"a": [{"deep": text}], text: 1}
    redacted = redact_json(value)
    assert secret not in repr(redacted)
    assert canonical(secret)[1:-1] not in canonical(redacted)


@pytest.mark.parametrize("name", SECRETS)
def test_redacting_twice_changes_nothing(name: str) -> None:
    once = redact(SECRETS[name][1])
    assert redact(once) == once
    assert redact_json({"a": once}) == {"a": once}


@given(st.lists(st.sampled_from([text for _, text in SECRETS.values()]) | st.text(max_size=12)))
def test_redacting_twice_changes_nothing_whatever_stands_together(parts: list[str]) -> None:
    once = redact("".join(parts))
    assert redact(once) == once


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_redacted(text: str) -> None:
    assert redact(redact(text)) == redact(text)


ORDINARY = [
    "commit 3f786850e387550fdab836ed7e6dc881de23001b\n",
    "c0ffee00-1111-4222-8333-444455556666",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" * 40,
    "password = getpass()",
    "password = getpass.getpass('Password: ')",
    "token = None",
    "token: str | None = None",
    "def login(user: str, password: str) -> bool:",
    "api_key = os.environ['API_KEY']",
    "api_key=settings.api_key,",
    "login(user=user, password=given)",
    "secret = secrets.token_hex(16)",
    "self.token = self._next_token()",
    "SyntaxError: unexpected token: identifier",
    "Unexpected token < in JSON at position 0",
    "max_tokens: 1024, num_tokens=50256, token_type: bearer",
    'next_page_token: "eyJsYXN0SWQiOjEwMDB9"',
    "password: ********",
    "PASSWORD=$DB_PASSWORD ./run",
    "export TOKEN=${TOKEN}",
    "--password PASSWORD  the password to use",
    "--token <token>",
    '{"password": "", "token": null}',
    "CREATE TABLE users (id INTEGER, password VARCHAR(255), token TEXT)",
    "SELECT password FROM users WHERE token IS NULL",
    "PWD=/root/project\nOLDPWD=/root",
    "drwxr-xr-x 2 root root 4096 Nov 29 16:53 secrets",
    "git@github.com:octo/hello.git",
    "author: jane@example.com, mailto:joe@example.com",
    "http://localhost:8080/path?to=joe@example.com",
    "nginx:1.25.3@sha256:" + "ab" * 32,
    "find / -type d -name mysql -print0",
    "mysql -u root -p shop",
    "the authorization header is missing",
    "Authorization: Bearer $TOKEN",
    "basic usage of the bearer of bad news",
    "sk-spinner-container-fading-circle-large",
    "pass the salt; bypass: true; compass=north",
    "Password must be at least 8 characters",
    "password: must be at least 8 characters",
    "('player5', 3), ('player1', 2)",
    '{"properties": {"password": {"type": "string", "minLength": 8, "description": "Your own."}}}',
    '{"required": ["password"], "properties": {"token": {"$ref": "#/definitions/token"}}}',
    "password:\n  type: string\n  description: At least 8 characters\n  format: password\n",
    "password: {type: String, required: [true, 'Please give 1 password']}",
    "secrets:\n  - db_password\n  - api_key\n",
    "    secretKeyRef:\n      name: database\n      key: password\n",
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n      name: db\n",
    "- name: DB_PASSWORD\n  value: $(OTHER_PASSWORD)\n",
    "if password:\n    return Account1\n",
    "Enter your password:\n  Account1",
    "docker login -u joe --password-stdin registry.example.com",
    "docker login -p $PASSWORD",
    "docker run --name db mysql -p3306:3306",
    "`sudo find / -type d -name mysql -print`",
    "time find . -name mysql -prune -o -name 'a' -print",
    "$ find . '(' -name a -o -path */mysql -print ')'",
    "ssh login -p 22",
    "INSERT INTO users (name, password) VALUES (?, ?), (:name, :password)",
    "INSERT INTO users (name, password) VALUES ('', NULL)",
    "name,password\nbob,\n",
    "\x1b[1mpassword: \x1b[0m\x1b[31m********\x1b[0m",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text
    assert redact_bytes(text.encode()) == text.encode()
    value = {"text": text}
    assert redact_json(value) is value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"password": "x"}, {"password": "[redacted:password]"}),
        ({"dbPassword": "hunter"}, {"dbPassword": "[redacted:password]"}),
        ({"pwd": "a b", "user": "joe"}, {"pwd": "[redacted:password]", "user": "joe"}),
        ({"password": 12345678}, {"password": "[redacted:password]"}),
        ({"API-Key": "abc"}, {"API-Key": "[redacted:api-key]"}),
        ({"a": {"Authorization": "zz"}}, {"a": {"Authorization": "[redacted:authorization]"}}),
        ({"auth": "zzyy"}, {"auth": "[redacted:authorization]"}),
        ({"cookies": 1, "Set-Cookie": "a=b"}, {"cookies": 1, "Set-Cookie": "[redacted:cookie]"}),
        ({"passwords": ["a", "b"]}, {"passwords": ["[redacted:password]", "[redacted:password]"]}),
        ({"private_key": "zz"}, {"private_key": "[redacted:private-key]"}),
        ({"access_token": "abcd1234"}, {"access_token": "[redacted:token]"}),
        ({"credentials": {"x": "s"}}, {"credentials": {"x": "[redacted:secret]"}}),
        ({"cookie": {"sid": ["s"], "path": "/"}},
         {"cookie": {"sid": ["[redacted:cookie]"], "path": "/"}}),
        ({"cookies": [{"name": "sid", "value": "s", "domain": "d"}]},
         {"cookies": [{"name": "sid", "value": "[redacted:cookie]", "domain": "d"}]}),
        ({"password": {"const": "s"}}, {"password": {"const": "[redacted:password]"}}),
        ({"password": {"type": "string", "default": "s", "enum": ["s", 12], "title": "t",
                       "examples": ["s"], "minLength": 8}},
         {"password": {"type": "string", "default": "[redacted:password]",
                       "enum": ["[redacted:password]"] * 2, "title": "t",
                       "examples": ["[redacted:password]"], "minLength": 8}}),
        ({"password": {"anyOf": [{"const": "s", "title": "t"}]}},
         {"password": {"anyOf": [{"const": "[redacted:password]", "title": "t"}]}}),
        ({"name": "DB_PASSWORD", "value": "s"},
         {"name": "DB_PASSWORD", "value": "[redacted:password]"}),
        ({"columns": ["id", "password"], "rows": [[1, "s"], [], [4, 1234, None]]},
         {"columns": ["id", "password"],
          "rows": [[1, "[redacted:password]"], [], [4, "[redacted:password]", None]]}),
        *(({"password": sign + "s3cr3tly"}, {"password": "[redacted:password]"})
          for sign in ("$", "${", "<", "{", "[", "%", "@", "...")),
        ({"credentials": {"user": "u", "secret": "s"}},
         {"credentials": {"user": "u", "secret": "[redacted:secret]"}}),
    ],
    ids=str,
)  # fmt: skip
def test_the_name_of_a_key_gives_its_value_away(value: Any, expected: Any) -> None:
    before = copy.deepcopy(value)
    assert redact_json(value) == expected
    assert value == before
    assert redact_json(expected) is expected


@pytest.mark.parametrize(
    "value",
    [
        {
            "type": "object",
            "properties": {"password": {"type": "string"}},
            "required": ["password"],
        },
        {"token": "cat", "tokens": ["the", "cat"], "max_tokens": 5},
        {"next_page_token": "CAUQAA1234567890abcd"},
        {"password": "", "secret": None, "token": True, "api_key": "${API_KEY}"},
        {"author": "joe", "bypass": "yes", "compass": "north", "keyboard": "qwerty"},
        {"password": "string"},
        {"password": {"type": "string", "description": "Your password", "minLength": 8}},
        {"password": {"type": ["string", "null"], "title": "Password", "format": "password"}},
        {"token": {"$ref": "#/definitions/token", "description": "see 12"}},
        {"auth": {"type": "basic", "username": "joe", "enabled": True}},
        {"name": "Forgot your password", "value": "yes"},
        {"name": "DB_PASSWORD", "value": "$DB_PASSWORD"},
        *(
            {"password": value}
            for value in (
                "$PASS",
                "$PASS_2",
                "${pass}",
                "<yours>",
                "{{ x }}",
                "$HOME/.pw",
                "%PASS%",
                "@Pass",
                "...",
                "$(pass x)",
                "${{ secrets.PASS }}",
                "$_POST['password']",
            )
        ),
        {"columns": ["id", "name"], "rows": [[1, "s"]]},
        {"columns": ["password"], "rows": 5},
        {"columns": ["password"], "rows": [["", None], 5]},
    ],
    ids=str,
)
def test_names_that_only_resemble_one_do_not(value: Any) -> None:
    assert redact_json(value) is value


def test_two_keys_that_were_secrets_stay_two() -> None:
    first, second = ("AKIA" + letter * 16 for letter in "AB")
    assert redact_json({first: 1, second: 2, "z": 3}) == {
        "[redacted:aws-key]": 1,
        "[redacted:aws-key] (2)": 2,
        "z": 3,
    }


def test_json_of_any_depth() -> None:
    deep: Any = {"password": "hunter2", "b": "AKIA" + "A" * 16}
    for _ in range(50_000):
        deep = [deep]
    text = canonical(redact_json(deep))
    assert '{"b":"[redacted:aws-key]","password":"[redacted:password]"}' in text


def test_characters_that_grow_in_lower_case_do_not_shift_a_secret() -> None:
    assert redact("İİİ password='hunter2' \ud800") == "İİİ password='[redacted:password]' \ud800"


def test_colours_within_a_secret() -> None:
    token = "ghp_a1B2\x1b[0mc3D4" + "e5" * 14
    assert redact(f"\x1b[1m{token}\x1b[0m!") == "[redacted:github-token]!"
    assert redact_bytes(token.encode()) == b"[redacted:github-token]"
    assert redact("password=\x1b[31mhunter2\x1b[0m") == "password=[redacted:password]"
    assert redact("\x1bAKIA" + "A" * 16) == "\x1b[redacted:aws-key]"


def test_actions_and_tools() -> None:
    action = Action(tool="shell", arguments={"command": "ls"})
    assert redact_action(action) is action
    secret = Action(tool="shell", arguments={"command": "mysql -phunter2 shop"})
    assert redact_action(secret).arguments == {"command": "mysql -p[redacted:password] shop"}
    assert redact_action(secret).digest != secret.digest
    tool = ToolSpec(name="t", description="d", source_code="def t(): ...")
    assert redact_tool(tool) is tool
    leaky = ToolSpec(
        name="t",
        description="postgres://u:hunter2@db/x",
        input_schema={"default": {"password": "hunter2"}},
        output_schema={"const": "hf_" + "a" * 34},
        source_code="KEY = 'ghp_" + "a1" * 18 + "'",
        domain="database",
    )
    assert redact_tool(leaky) == ToolSpec(
        name="t",
        description="postgres://u:[redacted:password]@db/x",
        input_schema={"default": {"password": "[redacted:password]"}},
        output_schema={"const": "[redacted:huggingface-token]"},
        source_code="KEY = '[redacted:github-token]'",
        domain="database",
    )


def test_each_literal_means_one_shape() -> None:
    literals = [shape.literal for shape in SHAPES]
    assert len(set(literals)) == len(literals)


HOSTILE = ["eyJ-", "sk-", "ghp_", "-----BEGIN PRIVATE KEY-----", "curl ", "password=", 'password="',
           "a:b@", "://a:", "bearer ", "login x password ", "token: ", "Private-Lines: 1 ", "x@y.",
           "mysql -", "[redacted:", "pass", "\\", 'password={"', "password:\n  ", "login -p '",
           "into t(password)values('", "password,a\n", "name=password value=", "\x1b[",
           "passwords:\n - ", "password: {x: "]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_text_made_to_be_slow_is_not(piece: str) -> None:
    # Each of these would take very long if the time grew with the square of the length.
    text = piece * (300_000 // len(piece))
    assert redact(redact(text)) == redact(text)
