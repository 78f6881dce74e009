"""What well-known commands do, as tables: hints for people and policies, never a safety boundary.

A command that is not listed is `unknown`. An option listed under a command adds its effect where it
occurs; options are matched generously (any abbreviation, any cluster of letters), because taking a
harmless word for an option makes things stricter only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from lwm_agents.values import Effect


@dataclass(frozen=True)
class Known:
    """A command's effect, and what single options add to it.

    A command with options that matter becomes `unknown` when a word only Bash can finish might be
    one of them.
    """

    effect: Effect
    options: Mapping[str, Effect] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """A command with subcommands: `base` always holds; the first word chooses, else `otherwise`."""

    otherwise: Effect
    base: Effect | None = None
    first: Mapping[str, Effect] = field(default_factory=dict)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _each(names: str, effect: Effect) -> dict[str, Known]:
    return {name: Known(effect) for name in names.split()}


def _first(**effects: str) -> dict[str, Effect]:
    table: dict[str, Effect] = {}
    for effect in ("read", "write", "destroy", "external", "unknown"):
        table.update(dict.fromkeys(effects.get(effect, "").split(), effect))
    return table


COMMANDS: Mapping[str, Known] = {
    # Nothing that can stand in their arguments makes these write. `cd`, `pushd` and `popd` move the
    # shell to another folder, where later words mean other files; they change no file themselves.
    **_each(
        ": [ test true false ls dir vdir cat tac head tail wc grep egrep fgrep cut tr paste join "
        "comm nl fold fmt expand unexpand rev od hexdump strings echo pwd cd pushd popd dirs "
        "stat readlink realpath basename dirname whoami id groups users who w last uname uptime "
        "arch nproc lscpu lsblk lsmem lspci lsusb free df du ps pgrep pstree which type "
        "whereis printenv seq sleep expr factor numfmt md5sum sha1sum sha224sum sha256sum "
        "sha384sum sha512sum b2sum cksum sum cmp diff diff3 base32 base64 basenc zcat "
        "bzcat xzcat zstdcat zgrep zipinfo jq tty locale exit return break continue shift wait "
        "getopts ulimit umask times logname hostid getconf pathchk tsort column look cal "
        "vmstat iostat mpstat netstat objdump readelf size",
        "read",
    ),
    "printf": Known("read", {"-v": "write"}),
    "ss": Known("read", {"-K": "destroy", "--kill": "destroy", "-D": "write", "--diag": "write"}),
    "lsof": Known("read", {"-D": "write", "+m": "write"}),
    "jobs": Known("read", {"-x": "unknown"}),
    "nm": Known("read", {"--plugin": "unknown"}),
    "sdiff": Known("read", {"-o": "write", "--output": "write", "--diff-program": "unknown"}),
    "bat": Known("read", {"--pager": "unknown", "--config-file": "unknown"}),
    "read": Known("read"),
    "set": Known("read"),
    "let": Known("read"),
    "readarray": Known("read", {"-C": "unknown"}),
    "mapfile": Known("read", {"-C": "unknown"}),
    "sort": Known("read", {"-o": "write", "--output": "write", "--compress-program": "unknown"}),
    "shuf": Known("read", {"-o": "write", "--output": "write"}),
    "tree": Known("read", {"-o": "write", "-R": "write"}),
    "iconv": Known("read", {"-o": "write", "--output": "write"}),
    "date": Known("read", {"-s": "unknown", "--set": "unknown"}),
    "file": Known("read", {"-C": "write", "--compile": "write"}),
    "rg": Known("read", {"--pre": "unknown", "--hostname-bin": "unknown"}),
    "ag": Known("read", {"--pager": "unknown"}),
    "yq": Known(
        "read", {"-i": "write", "--inplace": "write", "-s": "write", "--split-exp": "write"}
    ),
    "top": Known("unknown"),
    "less": Known("read", {"-o": "write", "-O": "write", "--log-file": "write", "+": "unknown"}),
    "ip": Known("unknown"),
    # Writers: what they change could be written again.
    **_each(
        "mkdir mkfifo touch tee cp csplit mktemp chmod chown chgrp "
        "setfacl chattr gunzip bunzip2 unxz unzip ar",
        "write",
    ),
    "install": Known("write", {"-s": "unknown", "--strip-program": "unknown"}),
    "ln": Known("write", {"-f": "destroy", "--force": "destroy"}),
    "split": Known("write", {"--filter": "unknown"}),
    "patch": Known("write", {"-e": "unknown", "--ed": "unknown"}),
    "gzip": Known("write"),
    "bzip2": Known("write"),
    "xz": Known("write"),
    "zip": Known("write", {"-m": "destroy", "--move": "destroy", "-d": "destroy", "-T": "unknown"}),
    "mv": Known("write"),
    # Destroyers.
    **_each(
        "rm rmdir unlink shred srm truncate kill pkill killall xkill skill wipe wipefs blkdiscard "
        "fdisk sfdisk gdisk sgdisk parted mkswap swapoff umount userdel groupdel deluser delgroup "
        "dropdb dropuser shutdown reboot poweroff halt telinit lvremove vgremove pvremove "
        "trash trash-put rimraf del erase",
        "destroy",
    ),
    # These leave the machine.
    **_each(
        "curl wget aria2c http https xh ssh scp sftp ftp tftp telnet nc ncat netcat socat mosh "
        "mail mailx sendmail mutt msmtp ping ping6 traceroute tracepath dig nslookup host whois "
        "nmap rclone s3cmd gsutil azcopy lftp rdesktop xfreerdp npx uvx pipx bunx pnpx",
        "external",
    ),
}

FAMILIES: Mapping[str, Family] = {
    "docker": Family(
        "unknown",
        first=_first(
            read="ps images inspect logs version info history top stats diff port",
            external="pull push login logout search",
            destroy="stop kill",
        ),
    ),
    "kubectl": Family("external", base="external"),
    "helm": Family("external", base="external"),
    "terraform": Family("external", base="external", first=_first(destroy="apply")),
    "aws": Family("external", base="external"),
    "gcloud": Family("external", base="external"),
    "az": Family("external", base="external"),
    "gh": Family("external", base="external"),
    "glab": Family("external", base="external"),
    "heroku": Family("external", base="external"),
    "fly": Family("external", base="external"),
    "vercel": Family("external", base="external"),
    "twine": Family("external", base="external"),
    "pip": Family(
        "unknown",
        first=_first(
            read="list show freeze check --version -V",
            external="install download search wheel index",
            destroy="uninstall",
        ),
    ),
    "uv": Family("unknown", first=_first(external="sync add pip tool publish lock")),
    "poetry": Family("unknown", first=_first(external="install add update publish lock")),
    "conda": Family("unknown", first=_first(read="list info", external="install create update")),
    "npm": Family(
        "unknown",
        first=_first(
            read="ls list --version -v",
            external="install i ci add update up publish exec audit view search login outdated",
            destroy="uninstall",
        ),
    ),
    "yarn": Family("unknown", first=_first(external="install add upgrade publish dlx")),
    "pnpm": Family("unknown", first=_first(read="ls list", external="install i add update dlx")),
    "cargo": Family(
        "unknown", first=_first(read="--version", external="install publish add fetch update")
    ),
    "go": Family("unknown", first=_first(read="version env", external="get install mod")),
    "gem": Family("unknown", first=_first(read="list", external="install push update")),
    "brew": Family("unknown", first=_first(read="list info", external="install upgrade update")),
    "apt": Family(
        "unknown",
        first=_first(
            read="list show search policy",
            external="install update upgrade full-upgrade dist-upgrade",
        ),
    ),
    "dpkg": Family("unknown", first=_first(read="-l -L -s --list", destroy="-r -P --purge")),
    "dnf": Family("unknown", first=_first(read="list info", external="install update upgrade")),
    "apk": Family(
        "unknown", first=_first(read="info", external="add update upgrade", destroy="del")
    ),
    "systemctl": Family(
        "unknown",
        first=_first(
            read="status is-active is-enabled list-units list-unit-files show cat",
            destroy="stop disable mask poweroff reboot halt isolate",
        ),
    ),
    "crontab": Family("unknown", first=_first(read="-l", destroy="-r")),
    "redis-cli": Family("unknown"),
    "mongosh": Family("unknown"),
}

ALIASES: Mapping[str, str] = {
    "podman": "docker", "docker-compose": "docker", "nerdctl": "docker", "pip3": "pip",
    "apt-get": "apt", "aptitude": "apt", "yum": "dnf", "tofu": "terraform", "oc": "kubectl",
    "rsh": "ssh", "gawk": "awk", "mawk": "awk", "nawk": "awk", "gsed": "sed", "fdfind": "fd",
    "bsdtar": "tar", "gtar": "tar", "mariadb": "mysql", "batcat": "bat",
    "more": "less", "zless": "less", "ripgrep": "rg",
}  # fmt: skip

DESTROY_WORD = re.compile(
    r"(?:rm|rmi|rb|prune|purge|down|kill|del|delete|destroy|remove|uninstall|drop|drain|"
    r"terminate|flushall|flushdb|wipe|erase|autoremove)(?:[-_:].*)?$|.*:(?:destroy|delete|remove)$",
    re.IGNORECASE,
)
"""A word that names destruction, anywhere behind a command with subcommands."""

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash"})

WRAPPERS: Mapping[str, tuple[str, int]] = {
    # name: (options that take a value, words that come before the command)
    "command": ("", 0), "builtin": ("", 0), "exec": ("-a", 0), "coproc": ("", 0),
    "nohup": ("", 0), "setsid": ("", 0), "busybox": ("", 0), "toybox": ("", 0),
    "time": ("-f -o --format --output", 0), "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n --class --classdata", 0), "stdbuf": ("-i -o -e --input --output --error", 0),
    "timeout": ("-s -k --signal --kill-after", 1), "taskset": ("", 1), "chrt": ("", 1),
    "sudo": ("-u -g -h -p -C -r -t -T -U -D --user --group --host --prompt --chdir", 0),
    "doas": ("-u -C", 0), "env": ("-u -C --unset --chdir", 0),
    "xargs": (
        "-n -I -P -L -d -a -E -s --max-args --replace --max-procs --max-lines --delimiter "
        "--arg-file --max-chars", 0
    ),
}  # fmt: skip
"""Commands that run the command that follows them."""

WRAPPER_FLAGS = _words(
    "-p -0 -r -t -x -i -n -E -H -S -b -c -l -f -w -v -V -k -A -P --null --no-run-if-empty "
    "--verbose --foreground --preserve-status --ignore-environment --portability --append"
)
"""Options of wrappers that take no value; another one puts in doubt where the command begins."""

RISKY_VARIABLES = re.compile(
    r"PATH|CDPATH|BASH_CMDS|BASH_ALIASES|IFS|ENV|BASH_ENV|BASH_FUNC.*|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|LD_.*|DYLD_.*|GIT_.*|"
    r".*PAGER|.*EDITOR|VISUAL|BROWSER|LESS.*|PYTHON.*|PERL.*|RUBY.*|NODE_.*|JAVA_.*|_JAVA.*|"
    r"MAKE.*|CC|CXX|.*_PROXY|.*_proxy|HOME|XDG_.*|TAR_OPTIONS|GREP_OPTIONS|RIPGREP_.*|EXINIT|TERMINFO|GCONV_PATH"
)
"""Variables that can make another program run, or another configuration be read."""

GIT: Mapping[str, Effect] = _first(
    read="status log diff show blame annotate describe rev-parse ls-files ls-tree cat-file "
    "shortlog grep rev-list merge-base name-rev for-each-ref show-ref count-objects check-ignore "
    "check-attr version whatchanged diff-tree diff-index diff-files cherry range-diff "
    "show-branch var help fsck",
    write="add commit init merge mv cherry-pick revert am apply switch stage format-patch notes "
    "archive bundle update-index write-tree commit-tree hash-object read-tree",
    destroy="clean rm gc prune reflog-expire filter-branch filter-repo update-ref repack "
    "prune-packed replace restore",
    external="push fetch pull clone ls-remote send-email svn p4 request-pull imap-send lfs "
    "fetch-pack send-pack",
)
"""Git's subcommands, those apart that need a closer look (see `shell_effects`)."""

GIT_OPTIONS: Mapping[str, Effect] = {
    "--output": "write",
    "--ext-diff": "unknown",
    "--textconv": "unknown",
    "--open-files-in-pager": "unknown",
    "-O": "unknown",
    "--upload-pack": "unknown",
    "--receive-pack": "unknown",
    "--exec": "unknown",
    "--filters": "unknown",
    "--template": "unknown",
}
