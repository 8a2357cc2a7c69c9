"""Facts of a shared object: needs, exports, protection. Needs pyelftools."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.constants import P_FLAGS
from elftools.elf.dynamic import DynamicSection, DynamicTag
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_DT_FLAGS, ENUM_DT_FLAGS_1
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import NoteSection, SymbolTableSection

_X86_FEATURES = {1: "IBT", 2: "SHSTK"}  # bits of the property x86 feature 1


@dataclass(frozen=True)
class Hardening:
    """How a shared object or a program is protected against exploitation.

    Attributes:
        relro: Whether relocated data becomes read-only.
        bind_now: Whether all symbols are bound at once, which makes `relro` complete.
        executable_stack: Whether it requests one, or leaves it open.
        text_relocations: Whether code is relocated, and so writable for a while.
        position_independent: Whether it can be loaded at any address.
        stack_protector: Whether it calls the C library's handler for overwritten stacks.
        features: IBT and SHSTK, of which it says that it is fit for them.
    """

    relro: bool = True
    bind_now: bool = True
    executable_stack: bool = False
    text_relocations: bool = False
    position_independent: bool = True
    stack_protector: bool = True
    features: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ElfFacts:
    """One shared object."""

    needed: list[str]  # names of the libraries that it needs
    search_path: list[str]  # RUNPATH and RPATH
    newest_glibc: tuple[int, int]  # of the versioned symbols that it needs, (0, 0) for none
    exported: list[str]  # dynamic symbols that it defines
    has_symbol_table: bool  # .symtab or debug information: not stripped
    hardening: Hardening = Hardening()


def read_elf(path: Path) -> ElfFacts:
    """Read a shared object; ELFError when it is none."""
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
            hardening=_hardening(elf, entries),
        )


def _hardening(elf: ELFFile, entries: list[DynamicTag]) -> Hardening:
    segments = {segment.header.p_type: segment.header.p_flags for segment in elf.iter_segments()}
    flags = {entry.entry.d_tag: entry.entry.d_val for entry in entries}
    bind_now = flags.get("DT_FLAGS", 0) & ENUM_DT_FLAGS["DF_BIND_NOW"]
    bind_now |= flags.get("DT_FLAGS_1", 0) & ENUM_DT_FLAGS_1["DF_1_NOW"]
    text_relocations = flags.get("DT_FLAGS", 0) & ENUM_DT_FLAGS["DF_TEXTREL"]
    return Hardening(
        relro="PT_GNU_RELRO" in segments,
        bind_now=bool(bind_now) or "DT_BIND_NOW" in flags,
        executable_stack=bool(segments.get("PT_GNU_STACK", P_FLAGS.PF_X) & P_FLAGS.PF_X),
        text_relocations=bool(text_relocations) or "DT_TEXTREL" in flags,
        position_independent=elf.header.e_type == "ET_DYN",
        stack_protector="__stack_chk_fail" in _symbols(elf, defined=False),
        features=_x86_features(elf),
    )


def _x86_features(elf: ELFFile) -> frozenset[str]:
    bits = 0
    for section in elf.iter_sections():
        if isinstance(section, NoteSection) and section.name == ".note.gnu.property":
            for note in section.iter_notes():
                for each in note.n_desc:
                    if each.pr_type == "GNU_PROPERTY_X86_FEATURE_1_AND":
                        bits |= each.pr_data
    return frozenset(name for bit, name in _X86_FEATURES.items() if bits & bit)


def _newest_glibc(elf: ELFFile) -> tuple[int, int]:
    versions = [(0, 0)]
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for _, symbols in section.iter_versions():
                names = [re.match(r"GLIBC_(\d+)\.(\d+)", symbol.name) for symbol in symbols]
                versions += [(int(name[1]), int(name[2])) for name in names if name]
    return max(versions)


def _exported(elf: ELFFile) -> list[str]:
    return _symbols(elf, defined=True)


def _symbols(elf: ELFFile, *, defined: bool) -> list[str]:
    """Return the names of the dynamic symbols that are defined, or of those that are not."""
    table = elf.get_section_by_name(".dynsym")
    if not isinstance(table, SymbolTableSection):
        return []
    return [
        symbol.name
        for symbol in table.iter_symbols()
        if symbol.name
        and symbol.entry.st_shndx != "SHN_ABS"
        and (symbol.entry.st_shndx != "SHN_UNDEF") == defined
    ]
