"""Secrets to plant, made at run time from a seed: no scanner finds any in this repository."""

from __future__ import annotations

import base64
import random
import string

_RANDOM = random.Random(20)
_LETTERS = string.ascii_letters + string.digits


def _pick(length: int, alphabet: str = _LETTERS) -> str:
    # The first three hold both cases and a digit: a real token of this length always does.
    return "q7Z"[:length] + "".join(_RANDOM.choice(alphabet) for _ in range(length - 3))


def _hex(length: int) -> str:
    return "".join(_RANDOM.choice("0123456789abcdef") for _ in range(length))


def _upper(length: int) -> str:
    return "".join(_RANDOM.choice(string.ascii_uppercase + "234567") for _ in range(length))


def _segment(length: int) -> str:
    return base64.urlsafe_b64encode(_RANDOM.randbytes(length)).decode().rstrip("=")


def _pem(kind: str) -> str:
    body = base64.encodebytes(_RANDOM.randbytes(400)).decode()
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}-----END {kind}PRIVATE KEY-----"


_BASIC = base64.b64encode(b"admin:" + _pick(12).encode()).decode()

SECRETS: dict[str, tuple[str, str]] = {
    # name: (what must be gone, the text it stands in)
    name: (secret, template.replace("@@", secret))
    for name, secret, template in (
        ("aws-key", "AKIA" + _upper(16), "using @@ for the upload"),
        ("aws-secret", _pick(40), "AWS_SECRET_ACCESS_KEY=@@\n"),
        ("aws-secret-ini", _pick(40), "[default]\naws_secret_access_key = @@\n"),
        ("aws-secret-json", _pick(40), '{"SecretAccessKey": "@@", "Expiration": "2026"}'),
        ("aws-secret-asked", _pick(40), "AWS Secret Access Key [None]: @@"),
        ("google-key", "AIza" + _pick(35), "https://maps.example.com/api?key=@@&q=1"),
        ("google-token", "ya29." + _pick(60), "access @@"),
        ("azure-key", _pick(86) + "==", "DefaultEndpointsProtocol=https;AccountKey=@@;Suffix=x"),
        ("azure-sas", _pick(43) + "%3D", "https://a.blob.example.com/c?sv=2024-01-01&sig=@@"),
        ("github", "ghp_" + _pick(36), "git clone https://@@@github.com/o/r"),
        ("github-fine", "github_pat_" + _pick(22) + "_" + _pick(59), "token is @@."),
        ("gitlab", "glpat-" + _pick(20), "PRIVATE-TOKEN: @@"),
        ("slack", "xoxb-" + "1234567890-" * 2 + _pick(24), "slack says (@@)"),
        ("slack-webhook", "T0" + _upper(8) + "/B0" + _upper(8) + "/" + _pick(24),
         "https://hooks.slack.com/services/@@"),
        ("stripe", "sk_live_" + _pick(24), "Stripe.api_key = '@@'"),
        ("openai", "sk-proj-" + _pick(60), "OPENAI: @@"),
        ("openai-old", "sk-" + _pick(48), "key @@"),
        ("anthropic", "sk-ant-api03-" + _pick(95), "x-api-key: @@"),
        ("huggingface", "hf_" + _pick(34), "login --token @@"),
        ("npm", "npm_" + _pick(36), "//registry.example.com/:_authToken=@@"),
        ("npm-old", "-".join(map(_hex, (8, 4, 4, 4, 12))), "//registry.example.com/:_authToken=@@"),
        ("pypi", "pypi-AgEIcHlwaS5vcmc" + _pick(80), "password = @@"),
        ("sendgrid", "SG." + _pick(22) + "." + _pick(43), "mail @@"),
        ("twilio", "SK" + _hex(32), "sid @@"),
        ("telegram", "AA" + _pick(33), "https://api.example.org/bot123456789:@@/getMe"),
        ("jwt", "eyJ" + _segment(24) + ".eyJ" + _segment(40) + "." + _segment(32), "cookie j=@@"),
        ("bearer", _pick(40), "Authorization: Bearer @@"),
        ("bearer-curl", _pick(24), "curl -H 'Authorization: Bearer @@' https://example.com"),
        ("bearer-short", "hunter22", '{"headers": {"Authorization": "Bearer @@"}}'),
        ("basic", _BASIC, "> Authorization: Basic @@\r\n> Host: example.com"),
        ("header", _pick(24), "curl -H 'X-Api-Key: @@' https://example.com/v1"),
        ("curl-user", "pa55-" + _pick(8), "curl -s -u admin:@@ https://example.com/"),
        ("pem", _pem("RSA "), "cat key.pem\n@@\n$ "),
        ("pem-openssh", _pem("OPENSSH "), "@@"),
        ("pem-pkcs8", _pem(""), "key: |\n@@"),
        ("pem-cut", _pem("EC ")[:300], "head -5 key\n@@"),
        ("pem-in-json", _pem("").replace("\n", "\\n"), '{"private_key": "@@\\n", "id": "1"}'),
        ("postgres", "s3cr3t" + _pick(6), "postgresql://app:@@@db.example.com:5432/shop"),
        ("postgres-odd", "p@ss/w" + _pick(6), "postgres://app:@@@localhost/shop?sslmode=off"),
        ("mysql", _pick(12), "mysql+pymysql://root:@@@127.0.0.1/x"),
        ("mongodb", _pick(12), "mongodb+srv://u:@@@cluster0.example.net/?retryWrites=true"),
        ("redis", _pick(12), "redis://:@@@cache:6379/0"),
        ("amqp", _pick(12), "amqp://guest:@@@mq:5672//"),
        ("no-scheme", _pick(12), "sqlplus scott:@@@db.example.com:1521/orcl"),
        ("libpq", "hunter2x", "host=db user=app password=@@ dbname=shop"),
        ("env", "Tr0ub4dor&3,(x)"[:9] + "!", "export DB_PASSWORD=@@\nPATH=/bin"),
        ("env-pass", "swordfish", "SMTP_PASS=@@\n"),
        ("yaml", "swordfish9", "database:\n  password: @@\n  host: db\n"),
        ("yaml-quoted", "correct horse battery", "password: '@@'"),
        ("json", "hun\\\"ter2", '{"user": "x", "password": "@@"}'),
        ("json-in-json", "hunter2000", '"{\\"db_password\\": \\"@@\\", \\"a\\": 1}"'),
        ("python", "hunter2000", 'connect(user="a", password="@@")'),
        ("python-typed", "hunter2000", "api_key: str = '@@'"),
        ("environ", "hunter2000", 'os.environ["API_TOKEN"] = "@@"'),
        ("flag", "hunter2", "mytool --password @@ --verbose"),
        ("flag-equals", "hunter2abc", "mytool --api-key=@@ run"),
        ("mysql-flag", "hunter2", "mysql -u root -p@@ shop"),
        ("sshpass", "hunter2", "sshpass -p @@ ssh host"),
        ("sql", "hunter2", "ALTER USER app WITH PASSWORD '@@';"),
        ("sql-mysql", "hunter2", "CREATE USER a IDENTIFIED BY '@@'"),
        ("query", "abcd1234", "GET /v1/items?access_token=@@&page=2"),
        ("netrc", "hunter2", "machine example.com login joe password @@"),
        ("xml", "hunter2", "<password>@@</password>"),
        ("cookie", "sessionid=" + _pick(32), "Set-Cookie: @@; Path=/; HttpOnly"),
        ("prompt", "hunter2", "Password: @@"),
        ("nested", _pick(12), '{"credentials": {"user": "joe", "x": "@@"}}'),
        ("nested-cookie", _pick(20), "{'cookie': {'sid': '@@', 'path': '/'}}"),
        ("nested-list", _pick(12), '{"passwords": [\n  "@@"\n]}'),
        ("nested-yaml", _pick(12), "credentials:\n  user: joe\n  x: @@\nother: 1\n"),
        ("dollar", "$" + _pick(12), '{"password": "@@"}'),
        ("schema-const", _pick(12), '{"properties": {"password": {"const": "@@"}}}'),
        ("schema-enum", _pick(12), '{"password": {"type": "string", "enum": ["@@"]}}'),
        ("openapi", _pick(12), "password:\n  type: string\n  example: @@\n"),
        ("kubernetes", _pick(12), "env:\n- name: DB_PASSWORD\n  value: @@\n"),
        ("environment", _pick(12), '[{"name": "DB_PASSWORD", "value": "@@"}]'),
        ("yaml-next-line", _pick(12), "db:\n  password:\n    @@\n  host: db\n"),
        ("yaml-folded", _pick(12), "password: >-\n  @@\n"),
        ("docker-login", _pick(12), "docker login -u joe -p @@ registry.example.com"),
        ("mysql-quoted", _pick(12), "mysql -u root -p'@@' shop"),
        ("mysql-inside", _pick(12), "docker exec -it db mysql -p@@ shop"),
        ("mongo", _pick(12), "mongosh -u joe -p @@ shop"),
        ("sqlcmd", _pick(12), "sqlcmd -S host -U sa -P @@ -Q q"),
        ("insert", _pick(12), "INSERT INTO users(name,password) VALUES('bob','@@')"),
        ("insert-rows", _pick(12), "insert into `u` (`password`, n) values ('', 1), ('@@', f(2))"),
        ("table", _pick(12), "id | name | password\n1 | bob | @@\n"),
        ("csv", _pick(12), "name,password\nbob,@@\n"),
    )
}  # fmt: skip
