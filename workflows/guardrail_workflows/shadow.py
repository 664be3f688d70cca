"""How does a rollout run that changes nothing? As every other one, under a type of its own.

A worker of an earlier build does not know the type, so it does not run a shadow at all: it would
overlook the word `shadow` and change the hosts. By its type a shadow is also known to lists.
"""

from dataclasses import replace

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from guardrail.model import messages
    from guardrail.model.messages import RolloutInput, Status
    from guardrail_workflows.rollout import RolloutWorkflow


@workflow.defn(name=messages.SHADOW)
class ShadowWorkflow(RolloutWorkflow):
    """A rollout whose hosts are looked at and left as they are."""

    @workflow.init
    def __init__(self, given: RolloutInput) -> None:
        super().__init__(_shadow(given))

    @workflow.run
    async def run(self, given: RolloutInput) -> Status:
        """See RolloutWorkflow."""
        return await super().run(_shadow(given))


def _shadow(given: RolloutInput) -> RolloutInput:
    """Whatever was asked for: under this type nothing is changed."""
    return replace(given, request=replace(given.request, shadow=True))
