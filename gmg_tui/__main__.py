"""The command `gmg-tui`, and `python -m gmg_tui`."""

import sys


def main() -> None:
    """Run this process's command line, and exit with its status; 130 after ctrl+c, also while modules are imported."""
    try:
        from gmg_tui.model.secrets import hide_arguments

        hide_arguments()  # before slow imports, as all users see them until then
        from gmg_tui.cli import app as cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
