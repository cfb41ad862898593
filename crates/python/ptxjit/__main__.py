"""`python -m ptxjit` and the console script: the `ptxjit` command."""

import os
import sys

from . import _libraries


def main() -> None:
    """Becomes the command."""
    try:
        command = _libraries.command()
    except FileNotFoundError as err:
        sys.exit(f"error: {err}")
    sys.stdout.flush()
    os.execv(command, ["ptxjit", *sys.argv[1:]])


if __name__ == "__main__":
    main()
