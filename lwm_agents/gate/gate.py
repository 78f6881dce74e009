"""The gate: the user's policy, the project's, and the mode, in one decision."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from lwm_agents.gate.caps import Caps
from lwm_agents.gate.effects import FILE_TOOLS
from lwm_agents.gate.policy import Decision, Policy, strictest
from lwm_agents.gate.policy_file import load_policy
from lwm_agents.values import Action, Effect, Mode, Value


def default_decision(mode: Mode, action: Action, effects: Collection[Effect]) -> Decision:
    """Return what a mode says of a call without a policy.

    dry-run        allow: nothing real happens
    gated          allow what only reads through a file tool; ask about anything else, every shell
                   and SQL call too: even looking at a database file can write beside it
    compare, live  allow: to execute is what they are for. A policy can still ask or deny
    """
    if mode == "gated":
        if action.tool in FILE_TOOLS and set(effects) == {"read"}:
            return Decision(verdict="allow", reason="a file tool that only reads")
        return Decision(verdict="ask", reason="gated asks before anything but reading files")
    reason = "nothing real happens" if mode == "dry-run" else f"{mode} executes everything"
    return Decision(verdict="allow", reason=reason)


class Gate(Value):
    """Decides on every call of a session.

    The user's own policy takes the mode's place, so it can be looser or stricter. The project's
    policy comes with somebody's repository: it is asked as well, and the stricter of the two holds.
    """

    mode: Mode
    user: Policy | None = None
    project: Policy | None = None
    root: str | None = None

    def decide(self, action: Action, effects: Effect | Collection[Effect]) -> Decision:
        """Return what happens to a call: allow, ask or deny, with the reason and the rule."""
        found: Collection[Effect] = (effects,) if isinstance(effects, str) else effects
        own = self.user.decide(action, found, root=self.root) if self.user else None
        decision = own or default_decision(self.mode, action, found)
        if self.project is not None:
            theirs = self.project.decide(action, found, root=self.root)
            decision = strictest(decision, theirs) if theirs else decision
        if self.mode == "dry-run" and decision.verdict == "ask":
            # Nothing real happens, so there is nothing to ask.
            return Decision(verdict="allow", reason="nothing real happens", rule=decision.rule)
        return decision

    @property
    def caps(self) -> Caps:
        """The lower of each limit."""
        own = self.user.caps if self.user else Caps()
        return own.with_stricter(self.project.caps) if self.project else own

    def allows_host(self, host: str) -> bool:
        """Say whether a dry run may GET from this host: the user must name it.

        A project that names hosts leaves only those of them that the user names, too.
        """
        if self.user is None or not self.user.allows_host(host):
            return False
        narrowed = self.project is not None and bool(self.project.network)
        return not narrowed or (self.project is not None and self.project.allows_host(host))


def load_policies(
    user: Path | str | None, project: Path | str | None
) -> tuple[Policy | None, Policy | None]:
    """Read the user's and the project's policy files; None for one that is not named."""
    return (
        load_policy(user) if user is not None else None,
        load_policy(project) if project is not None else None,
    )
