"""What is wrong with these policies and gates, though every word of them is allowed?

A document can be well formed and protect nothing: a gate that cannot fail, a policy that covers no
host, missing data that counts as good. Each such thing is named with its place in the document,
what is wrong and what to do. Errors let something through that the author meant to stop, or stop
everything for good; warnings are likely mistakes.
"""

from dataclasses import replace

from guardrail.decide.advice_channels import CHANNEL_CHECKS, hearers, people
from guardrail.decide.advice_gates import GATE_CHECKS
from guardrail.decide.advice_policies import POLICY_CHECKS
from guardrail.model.advice import Advice, Given


def advice(given: Given) -> tuple[Advice, ...]:
    """All that is wrong, policy by policy, then gate by gate, then channel by channel, reminder by
    reminder, checklist by checklist."""
    found = [
        replace(one, kind="Policy", name=policy.name)
        for policy in given.policies
        for check in POLICY_CHECKS
        for one in check(policy, given)
    ]
    found += [
        replace(one, kind="Gate", name=gate.name)
        for gate in given.gates
        for check in GATE_CHECKS
        for one in check(gate, given)
    ]
    found += [
        replace(one, kind="Channel", name=channel.name)
        for channel in given.channels
        for check in CHANNEL_CHECKS
        for one in check(channel, given)
    ]
    found += [
        replace(one, kind="Reminder", name=reminder.name)
        for reminder in given.reminders
        for one in people(reminder, given)
    ]
    found += [
        replace(one, kind="Checklist", name=checklist.name)
        for checklist in given.checklists
        for one in hearers(checklist, given)
    ]
    return tuple(found)
