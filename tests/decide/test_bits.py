"""Sets of hosts kept as whole numbers."""

from hypothesis import given
from hypothesis import strategies as st

from guardrail.decide.bits import members, union

STRETCHES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: (min(pair), max(pair)))
)


@given(STRETCHES)
def test_stretches_that_overlap_are_one_set(stretches):
    """Added up, two stretches over the same hosts were the hosts after them."""
    hosts = {index for begin, end in stretches for index in range(begin, end)}
    assert set(members(union(stretches))) == hosts
