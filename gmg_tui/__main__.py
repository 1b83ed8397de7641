"""`python -m gmg_tui` does what the command `gmg-tui` does."""

from gmg_tui.cli import main

if __name__ == "__main__":
    main()
