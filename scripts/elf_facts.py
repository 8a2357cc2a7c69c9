"""What a shared object says of itself: needs, exports, where it looks. Needs pyelftools."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection


@dataclass(frozen=True)
class ElfFacts:
    """One shared object."""

    needed: list[str]  # names of the libraries that it needs
    search_path: list[str]  # RUNPATH and RPATH
    newest_glibc: tuple[int, int]  # of the versioned symbols that it needs, (0, 0) for none
    exported: list[str]  # dynamic symbols that it defines
    has_symbol_table: bool  # .symtab or debug information: not stripped


def read_elf(path: Path) -> ElfFacts:
    """Reads a shared object; ELFError when it is none."""
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        sections = list(elf.iter_sections())
        entries = [
            entry
            for section in sections
            if isinstance(section, DynamicSection)
            for entry in section.iter_tags()
        ]
        return ElfFacts(
            needed=[entry.needed for entry in entries if entry.entry.d_tag == "DT_NEEDED"],
            search_path=[
                *(entry.runpath for entry in entries if entry.entry.d_tag == "DT_RUNPATH"),
                *(entry.rpath for entry in entries if entry.entry.d_tag == "DT_RPATH"),
            ],
            newest_glibc=_newest_glibc(elf),
            exported=_exported(elf),
            has_symbol_table=any(
                section.name == ".symtab" or section.name.startswith(".debug_")
                for section in sections
            ),
        )


def _newest_glibc(elf: ELFFile) -> tuple[int, int]:
    versions = [(0, 0)]
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for _, symbols in section.iter_versions():
                names = [re.match(r"GLIBC_(\d+)\.(\d+)", symbol.name) for symbol in symbols]
                versions += [(int(name[1]), int(name[2])) for name in names if name]
    return max(versions)


def _exported(elf: ELFFile) -> list[str]:
    table = elf.get_section_by_name(".dynsym")
    if not isinstance(table, SymbolTableSection):
        return []
    return [
        symbol.name
        for symbol in table.iter_symbols()
        if symbol.entry.st_shndx not in ("SHN_UNDEF", "SHN_ABS") and symbol.name
    ]
