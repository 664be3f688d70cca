"""Real keys for tests, and an allowed-signers file that knows them."""

import subprocess
from pathlib import Path


def key(folder: Path, name: str) -> Path:
    """A new key without a passphrase; its public half is beside it."""
    path = folder / f"{name}-key"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    return path


def line(names: str, path: Path, options: str = 'namespaces="guardrail"') -> str:
    """The line of an allowed-signers file for this key."""
    public = path.with_name(path.name + ".pub")
    kind, blob, *_ = public.read_text().split()
    return f"{names} {options} {kind} {blob}\n"


def signed_for(text: str, path: Path, namespace: str = "guardrail") -> str:
    """A signature as a person makes it by hand."""
    words = ["ssh-keygen", "-Y", "sign", "-n", namespace, "-f", str(path)]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=True)
    return done.stdout
