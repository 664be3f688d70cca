"""Who signed this text? `ssh-keygen -Y` tells, with keys that people have already.

Which key is whose says an allowed-signers file of the worker's (ssh-keygen(1), ALLOWED SIGNERS):

    bob,storage-oncall namespaces="guardrail" ssh-ed25519 AAAA…
    cid valid-before="20271231"               ssh-ed25519 AAAA…

The first name for a key is the person, whatever else is said of that key further down: so one key
is never two people. The other names are those for whom the person may speak, such as the owners of
a policy. Whoever cannot be told for certain is nobody: every fault here is a refusal.
"""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from guardrail.errors import Refused
from guardrail.model.identity import Signer

NAMESPACE = "guardrail"
"""What a signature is for: one that was made for mail or for git is none here."""
PROGRAM = "ssh-keygen"
ALLOWED = "allowed_signers"
"""The file in the worker's source folder, where no other one is named."""
ANSWERS = 5.0
"""Seconds that a check may take."""
TYPED = 120.0
"""Seconds for signing: a person may have to type a passphrase, or to touch a key."""
MOST_KEYS = 1024 * 1024
MOST_SIGNATURE = 16_384
"""Letters; one by a certificate has some 3,000."""

_KEY = re.compile(r"SHA256:\S+")
_PATTERN = re.compile(r"[*?!]")


def sign(text: str, key: Path, *, program: str = PROGRAM) -> str:
    """The signature over a text, in armor. Raises Refused when there is none.

    key: a private key's file, or the public one of a key that an agent holds.
    """
    words = ["-Y", "sign", "-n", NAMESPACE, "-f", str(key.expanduser())]
    done = _run(program, words, text, TYPED)
    if done.returncode or not done.stdout.startswith("-----BEGIN SSH SIGNATURE-----"):
        raise Refused(f"{key} does not sign: {_told(done)}")
    return done.stdout


def signer_of(text: str, signature: str, allowed: Path, *, program: str = PROGRAM) -> Signer:
    """Who signed exactly this text, now. Raises Refused with the reason when nobody did."""
    if len(signature) > MOST_SIGNATURE:
        raise Refused(f"that is no signature: it has more than {MOST_SIGNATURE:,} letters")
    known = _allowed(allowed)
    with TemporaryDirectory(prefix="guardrail-") as folder:  # nobody else may read or write it
        keys, signed = Path(folder, "keys"), Path(folder, "signature")
        keys.write_bytes(known)  # both questions are asked of the same keys
        signed.write_text(signature)
        asked = ["-s", str(signed), "-f", str(keys)]
        found = _run(program, ["-Y", "find-principals", *asked], "", ANSWERS)
        name, *groups = _names(found, allowed)
        words = ["-Y", "verify", "-n", NAMESPACE, "-I", name, *asked]
        checked = _run(program, words, text, ANSWERS)
    key = _KEY.search(checked.stdout)
    if checked.returncode or key is None:
        raise Refused(
            f"the signature is by a key of {name}, and not over this text, or not for it "
            f"({_told(checked)}). See what to sign with --what-to-sign; it is signed for "
            f"the namespace {NAMESPACE}"
        )
    return Signer(name, tuple(groups), key[0])


def _allowed(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            known = file.read(MOST_KEYS + 1)
    except OSError as fault:
        why = (fault.strerror or str(fault)).lower()
        raise Refused(
            f"no signature can be checked: the worker's file of allowed signers {path} cannot be "
            f"read ({why}); put one there, or name one with GUARDRAIL_ALLOWED_SIGNERS"
        ) from None
    if len(known) > MOST_KEYS:
        raise Refused(f"the file of allowed signers {path} is larger than {MOST_KEYS:,} bytes")
    return known


def _names(found: "subprocess.CompletedProcess[str]", allowed: Path) -> Sequence[str]:
    """The names that the key has. Raises Refused when it has none, or is for many people."""
    names = list(dict.fromkeys(found.stdout.splitlines()))
    if found.returncode or not names or not names[0].strip():
        raise Refused(
            f"the signature is by nobody whom the worker knows now ({_told(found)}); the keys that "
            f"count are in its file {allowed}"
        )
    patterns = [name for name in names if _PATTERN.search(name)]
    if patterns:
        raise Refused(
            f"the key is listed for {', '.join(patterns)}, which may be anybody: give it the name "
            f"of one person in {allowed}"
        )
    return names


def _run(
    program: str, words: Sequence[str], text: str, limit: float
) -> "subprocess.CompletedProcess[str]":
    """Run it with the text on its standard input. Raises Refused when it cannot be run."""
    try:
        return subprocess.run(  # noqa: S603 - a list of words, no shell
            [program, *words],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
    except FileNotFoundError:
        raise Refused(
            f"the program {program} is not there, so nothing can be signed or checked here: "
            "install OpenSSH's client (Debian: apt install openssh-client)"
        ) from None
    except subprocess.TimeoutExpired:
        raise Refused(f"{program} did not answer within {limit:g} s") from None
    except OSError as fault:
        raise Refused(f"{program} cannot be run: {fault}") from None


def _told(done: "subprocess.CompletedProcess[str]") -> str:
    """What it said about it, in one line."""
    lines = [line.strip() for line in done.stderr.splitlines()]
    kept = [line for line in lines if line and not line.startswith("Signing data")]
    return "; ".join(kept)[:400] or f"{PROGRAM} ended with {done.returncode}"
