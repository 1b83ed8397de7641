"""The command `gmg-tui`, and `python -m gmg_tui`."""

import sys


def main() -> None:
    """Runs this process's command line. Exits with its status, or with 130 after ctrl+c, even during imports."""
    try:
        from gmg_tui.model.secrets import hide_arguments

        hide_arguments()  # before slow imports: until then all users can see the arguments
        from gmg_tui.cli import app as cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
