"""The gate: the user's policy, the project's, and the mode, in one decision."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from pydantic import Field

from lwm_agents.gate.caps import Caps, Spent, cost_of
from lwm_agents.gate.effects import FILE_TOOLS, effects_of, worst
from lwm_agents.gate.policy import Decision, Policy, strictest
from lwm_agents.gate.policy_file import load_policy
from lwm_agents.values import Action, Effect, Mode, ToolSpec, Value


def default_decision(mode: Mode, action: Action, effects: Collection[Effect]) -> Decision:
    """Return what a mode says of a call without a policy.

    dry-run        allow: nothing real happens
    gated          allow what only reads through a file tool; ask about anything else. Of these a
                   session answers the shell and SQL calls that read from a copy, without asking:
                   even looking at a database file can write beside it
    compare, live  allow: to execute is what they are for. A policy can still ask or deny
    """
    if mode == "gated":
        if action.tool in FILE_TOOLS and set(effects) == {"read"}:
            return Decision(answer="allow", reason="a file tool that only reads")
        return Decision(answer="ask", reason="gated asks before anything but reading files")
    reason = "nothing real happens" if mode == "dry-run" else f"{mode} executes everything"
    return Decision(answer="allow", reason=reason)


class Verdict(Value):
    """What the gate makes of one call: all it can do, what happens to it, and what it costs."""

    effects: frozenset[Effect]
    decision: Decision
    cost: Spent

    @property
    def effect(self) -> Effect:
        """The worst the call can do."""
        return worst(self.effects)


class Gate(Value):
    """Decides on every call of a session.

    The user's own policy takes the mode's place, so it can be looser or stricter. The project's
    policy comes with somebody's repository: it is asked as well, and the stricter of the two holds.

    `builtin` names the tools that are this package's own, `declared` the effects that the code that
    opened the session gives to others. `root` and `dialect` help to read paths and SQL.
    """

    mode: Mode
    builtin: frozenset[str]
    user: Policy | None = None
    project: Policy | None = None
    root: str | None = None
    declared: dict[str, Effect] = Field(default_factory=dict)
    dialect: str | None = None

    @classmethod
    def of(
        cls,
        mode: Mode,
        root: Path | str,
        policy: Policy | Path | str | None = None,
        *,
        project_policy: Path | str | None = None,
        builtin: Collection[str],
        declared: Mapping[str, Effect] | None = None,
        dialect: str | None = None,
    ) -> Gate:
        """Return the gate of a session with the user's policy and the project's.

        Raises ConfigError where a policy file can't be used.
        """
        return cls(
            mode=mode,
            builtin=frozenset(builtin),
            user=(policy if isinstance(policy, Policy) or policy is None else load_policy(policy)),
            project=None if project_policy is None else load_policy(project_policy),
            root=str(root),
            declared=dict(declared or {}),
            dialect=dialect,
        )

    def judge(self, action: Action, spec: ToolSpec | None, spent: Spent | None = None) -> Verdict:
        """Return the effects, the decision and the cost of a call after what is `spent` so far."""
        effects = effects_of(
            action,
            spec,
            self.declared.get(action.tool),
            builtin=action.tool in self.builtin,
            dialect=self.dialect,
        )
        cost = cost_of(action, effects)
        decision = self.decide(action, effects)
        refusal = self.caps.refusal(spent or Spent(), cost)
        if refusal is not None and decision.answer != "deny":
            decision = Decision(answer="deny", reason=refusal, rule="caps")
        return Verdict(effects=effects, decision=decision, cost=cost)

    def decide(self, action: Action, effects: Effect | Collection[Effect]) -> Decision:
        """Return what happens to a call: allow, ask or deny, with the reason and the rule."""
        found: Collection[Effect] = (effects,) if isinstance(effects, str) else effects
        own = self.user.decide(action, found, root=self.root) if self.user else None
        decision = own or default_decision(self.mode, action, found)
        if self.project is not None:
            theirs = self.project.decide(action, found, root=self.root)
            decision = strictest(theirs, decision) if theirs else decision
        if self.mode == "dry-run" and decision.answer == "ask":
            # Nothing real happens, so there is nothing to ask.
            return Decision(answer="allow", reason="nothing real happens", rule=decision.rule)
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
