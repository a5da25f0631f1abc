"""`python -m pudi.cli`, the same as the command `pudi`."""

from pudi.cli.main import main

if __name__ == "__main__":
    main()
