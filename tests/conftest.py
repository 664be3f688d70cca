"""What every test may count on."""

import signal

from hypothesis import settings

# A shell starts background jobs with SIGINT ignored, and so would everything that is started here:
# whatever ran these tests, Ctrl-C must work in what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Here the same examples are drawn each time, so that what fails is the change's doing; `make prove`
# draws others (`--hypothesis-profile=anew`). How long one takes is no matter of tests.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("anew", deadline=None, print_blob=True)
settings.load_profile("same")
