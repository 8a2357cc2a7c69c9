"""`python -m endcap` is the command `endcap`."""

from endcap.cli.app import main

main()
