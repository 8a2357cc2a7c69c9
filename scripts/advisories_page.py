"""Writes docs/advisories.md from the table of advisories in the package.

python scripts/advisories_page.py > docs/advisories.md
"""

from __future__ import annotations

from endcap.server.advisories import ADVISORIES, AS_OF, Advisory

_BULLETIN = "https://nvidia.custhelp.com/app/answers/detail/a_id/"
_CURRENT = max(advisory.fixed_in for advisory in ADVISORIES).month

INTRODUCTION = f"""\
# Known vulnerabilities of Triton

<!-- Made by `python scripts/advisories_page.py > docs/advisories.md`; a test compares. -->

This page lists what `endcap doctor` and `endcap serve` know of a server's release, and how to run
one without these vulnerabilities.

    endcap doctor --verbose      # the release of the server here, and its advisories

`endcap serve` prints release and number when it is ready. It refuses to listen on another than a
loopback address where the table names a vulnerability of the release, or where the release is not
known. `--accept-known-vulnerabilities` overrides that, for ports that only a proxy reaches. A
`tritonserver` that you start yourself is not checked.

The table is as of {AS_OF}, the date of the last bulletin in it, and was made from the repository
`NVIDIA/product-security`. Of a release without a row `endcap doctor` says that none is known as of
that date; later bulletins are on [NVIDIA's page](https://www.nvidia.com/security/). Some bulletins
concern parts that an installation may lack, such as the DALI backend, the SageMaker endpoint or the
MLflow plugin: endcap does not tell them apart. A build that is not final, such as 2.71.0dev, counts
as the release before.

## A current server

endcap's own server, which `endcap serve` downloads where there is no other, is release 24.10, that
of nvidia-pytriton 0.5.13 to 0.7.0; a later one is not known. Two ways lead to a current server,
both by NVIDIA's container
`nvcr.io/nvidia/tritonserver:YY.MM-py3`, release {_CURRENT} or later:

- Mount endcap's backends and models into it:
  [](gpu_quickstart.md#without-an-image-of-your-own).
- [Install endcap](gpu_quickstart.md#3-an-image-with-endcap) in an image that is built on it:
  `endcap serve` finds `/opt/tritonserver`, takes
  its release from `TRITON_VERSION` there, and `--host 0.0.0.0` needs no further option.

## The table
"""


def row(advisory: Advisory) -> str:
    """Return one row of the table."""
    since = advisory.affected_since
    affected = f"{since.month} and later" if since else "all before"
    return (
        f"| [{advisory.bulletin}]({_BULLETIN}{advisory.bulletin}) | {advisory.published} | "
        f"{affected} | {advisory.fixed_in.month} | {advisory.fixed_in} | "
        f"{', '.join(advisory.cves)} |"
    )


def main() -> None:
    """Print the page."""
    print(INTRODUCTION)
    print("| bulletin | date | affected | fixed in | version | CVEs |")
    print("| --- | --- | --- | --- | --- | --- |")
    for advisory in ADVISORIES:
        print(row(advisory))


if __name__ == "__main__":
    main()
