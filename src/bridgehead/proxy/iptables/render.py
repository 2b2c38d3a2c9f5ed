"""Frontends as iptables rules: kube-proxy's chains under kube-proxy's names. README.md explains them.

Pure: no I/O, no clock, no randomness.

`Renderer.change` renders `Change`s as the transaction that brings the kernel from the old Frontends to the new; it has
only chains that differ. `Renderer.full` compares everything that should be there with what the kernel has
(`readback.Table`) and renders the chains that differ, which for an empty kernel is the whole ruleset.
`Renderer.repair` restores a few chains that somebody else changed. `mode.py` calls them and applies the result.

All input is checked before it becomes text: addresses and ranges are canonical (`address_texts.canonical_address`),
ports are ints, and a Service's name appears only in a comment, and only when all its characters are harmless.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from bridgehead.proxy.address_texts import Family, family_of, of_family
from bridgehead.proxy.frontend_table import Change
from bridgehead.proxy.frontends import Frontend, FrontendKey
from bridgehead.proxy.mode import Settings

from .chains import (
    CLUSTER_IPS,
    FIREWALL,
    KUBELETS,
    LOOPBACK_GUARD,
    SERVICES,
    SHARED,
    SHARED_WITH_IPVS,
    TABLES,
    Chain,
    Rules,
    closing_rules,
    cluster_ip_rules,
    fixed_chains,
    host,
    is_ours,
    jumps,
    target_of,
)
from .ports import PortKey, PortRules, has_chain, port_of, render_port
from .transaction import EMPTY, Tables, Transaction

Kernel = Mapping[Family, Tables]


class Renderer:
    """Renders transactions. Keeps each Service port's Frontends, lines in shared chains, and number of rules."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.compares_text = True  # False: only the number of a chain's rules, for an unknown iptables-save
        self._ports: dict[PortKey, dict[FrontendKey, Frontend]] = {}
        self._shared: dict[PortKey, dict[Chain, Rules]] = {}
        self._own_rules: dict[PortKey, int] = {}
        self._written: dict[tuple[Family, Chain], Rules] = {}  # shared chains, as they were sent last
        self._cluster_ips: Counter[str] = Counter()

    def change(
        self,
        changes: Iterable[Change],
        old_cluster_ips: Iterable[str] = (),
        new_cluster_ips: Iterable[str] = (),
    ) -> Transaction:
        """Return the transaction for these changes. The kernel must hold what the earlier transactions made."""
        before: dict[PortKey, dict[FrontendKey, Frontend]] = {}
        for old, new in changes:
            for frontend, is_old in ((old, True), (new, False)):
                if frontend is None:
                    continue
                port = port_of(frontend)
                present = self._ports.setdefault(port, {})
                if port not in before:
                    before[port] = dict(present)
                if is_old:
                    present.pop(frontend.key, None)
                else:
                    present[frontend.key] = frontend
        transaction = Transaction()
        stale: set[tuple[Family, Chain]] = set()
        for port in sorted(before):
            was = render_port(port, before[port].values(), self.settings)
            now = render_port(port, self._ports[port].values(), self.settings)
            self._record(port, now)
            for chain in was.own.keys() - now.own.keys():
                transaction.part(port.family, chain.table).removed.append(chain.name)
            for chain, rules in now.own.items():
                if was.own.get(chain) != rules:
                    part = transaction.part(port.family, chain.table)
                    part.written[chain.name] = rules
                    if chain in was.own:
                        part.present[chain.name] = was.own[chain]
            for chain in SHARED:
                if was.shared.get(chain) != now.shared.get(chain):
                    stale.add((port.family, chain))
        for family in self._count_cluster_ips(old_cluster_ips, new_cluster_ips):
            if of_family(self.settings.service_cidrs, family):
                stale.add((family, CLUSTER_IPS))
        for family, chain in sorted(stale):
            part = transaction.part(family, chain.table)
            if (family, chain) in self._written:
                part.present[chain.name] = self._written[family, chain]
            part.written[chain.name] = self._written[family, chain] = self._rules_of(family, chain)
        for part in transaction.parts.values():
            part.removed.sort()
        return transaction

    def full(self, frontends: Iterable[Frontend], cluster_ips: Iterable[str], kernel: Kernel) -> Transaction:
        """Return the transaction that makes our chains hold these Frontends and nothing else.

        `kernel` is what was read of each family's tables, without those that do not exist. Chains that are correct are
        not written.
        """
        self._ports.clear()
        self._shared.clear()
        self._own_rules.clear()
        self._cluster_ips = Counter(cluster_ips)
        for frontend in frontends:
            self._ports.setdefault(port_of(frontend), {})[frontend.key] = frontend
        transaction = Transaction()
        for family in (4, 6):
            tables = kernel.get(family, {})
            if family in self.settings.families:
                wanted = self.chains(family)
                transaction.write(family, tables, wanted, jumps(), compares_text=self.compares_text)
                for table in TABLES:
                    for name in sorted(tables.get(table, EMPTY).chains):
                        if is_ours(table, name) and Chain(table, name) not in wanted:
                            transaction.part(family, table).removed.append(name)
            else:
                _remove(transaction, family, tables)
        return transaction

    def repair(self, chains: Mapping[tuple[Family, Chain], bool], kernel: Kernel) -> Transaction:
        """Return the transaction that restores these chains, which somebody else changed, and no others.

        `chains`: whether each exists; ours are written anew. `kernel`: what was read of the chains that are not ours.
        """
        transaction = Transaction()
        for family in self.settings.families:
            changed = {chain for whose, chain in chains if whose == family}
            if not changed:
                continue
            wanted = self._some_chains(family, changed)
            for chain in changed:
                if chain in wanted:
                    transaction.part(family, chain.table).written[chain.name] = wanted[chain]
                elif is_ours(*chain) and chains[family, chain]:
                    transaction.part(family, chain.table).removed.append(chain.name)
            broken = [jump for jump in jumps() if Chain(jump.table, jump.chain) in changed]
            transaction.write(family, kernel.get(family, {}), {}, broken, compares_text=self.compares_text)
        return transaction

    def removal(self, kernel: Kernel) -> Transaction:
        """Return the transaction that removes our chains and jumps from these tables."""
        transaction = Transaction()
        for family, tables in kernel.items():
            _remove(transaction, family, tables)
        return transaction

    def chains(self, family: Family) -> dict[Chain, Rules]:
        """Return all chains that the family's tables should have, with their rules."""
        found = fixed_chains(family, self.settings)
        for port in sorted(self._ports):
            if port.family == family:
                rendered = render_port(port, self._ports[port].values(), self.settings)
                self._record(port, rendered)
                found.update(rendered.own)
        shared = (*SHARED, CLUSTER_IPS) if of_family(self.settings.service_cidrs, family) else SHARED
        for chain in shared:
            found[chain] = self._written[family, chain] = self._rules_of(family, chain)
        return found

    def rule_counts(self, family: Family) -> dict[str, int]:
        """Return the number of rules that our chains should have in each of the family's tables."""
        if family not in self.settings.families:
            return {"filter": 0, "nat": 0}
        own = (count for port, count in self._own_rules.items() if port.family == family)
        counts = Counter({"filter": 0, "nat": sum(own)})
        for port, shared in self._shared.items():
            for chain, rules in shared.items() if port.family == family else ():
                counts[chain.table] += len(rules)
        fixed = fixed_chains(family, self.settings)
        fixed |= {chain: closing_rules(chain, family, self.settings) for chain in SHARED}
        if of_family(self.settings.service_cidrs, family):
            fixed[CLUSTER_IPS] = self._rules_of(family, CLUSTER_IPS)
        for chain, rules in fixed.items():
            counts[chain.table] += len(rules)
        return dict(counts)

    def _some_chains(self, family: Family, names: Collection[Chain]) -> dict[Chain, Rules]:
        """Return those of the named chains that the family's tables should have, with their rules."""
        found = fixed_chains(family, self.settings)
        own = {name for table, name in names if table == "nat"}
        for port, frontends in self._ports.items():
            if port.family == family and has_chain(port, frontends.values(), own):
                found.update(render_port(port, frontends.values(), self.settings).own)
        shared = (*SHARED, CLUSTER_IPS) if of_family(self.settings.service_cidrs, family) else SHARED
        found.update((chain, self._rules_of(family, chain)) for chain in shared if chain in names)
        return {chain: rules for chain, rules in found.items() if chain in names}

    def _rules_of(self, family: Family, chain: Chain) -> Rules:
        """Return all rules of a chain that all Services share."""
        if chain == CLUSTER_IPS:
            return cluster_ip_rules(sorted(ip for ip in self._cluster_ips if family_of(ip) == family))
        lines = [
            line
            for port in sorted(self._shared)
            if port.family == family
            for line in self._shared[port].get(chain, ())
        ]  # fmt: skip
        return (*lines, *closing_rules(chain, family, self.settings))

    def _record(self, port: PortKey, rules: PortRules) -> None:
        if not self._ports[port]:
            del self._ports[port]
        if rules.own:
            self._own_rules[port] = sum(map(len, rules.own.values()))
        else:
            self._own_rules.pop(port, None)
        if rules.shared:
            self._shared[port] = rules.shared
        else:
            self._shared.pop(port, None)

    def _count_cluster_ips(self, old: Iterable[str], new: Iterable[str]) -> set[Family]:
        """Count cluster IPs. Return the families in which the set of addresses changed."""
        steps = Counter(new)
        steps.subtract(Counter(old))
        changed = set()
        for address, step in steps.items():
            before = self._cluster_ips[address]
            after = before + step
            if after > 0:
                self._cluster_ips[address] = after
            else:
                del self._cluster_ips[address]
            if (before > 0) != (after > 0):
                changed.add(family_of(address))
        return changed


def exemption(tables: Tables, address: str, port: int) -> Transaction:
    """Return the transaction that exempts an address from KUBE-* chains; nothing if it is a cluster IP."""
    transaction = Transaction()
    to_it = f"-d {host(address)} "
    rule = f"{to_it}-p tcp -m tcp --dport {port} -j RETURN"
    of_cluster_ips = tables.get("filter", EMPTY).chains.get(CLUSTER_IPS.name, [])
    of_services = [line for line in tables.get("nat", EMPTY).chains.get(SERVICES.name, []) if ' cluster IP" ' in line]
    if any(line.startswith(to_it) for line in (*of_cluster_ips, *of_services)):
        return transaction
    for table, content in tables.items():
        heads = {
            target_of(line)
            for name, lines in content.chains.items()
            if not name.startswith("KUBE-") and name != "POSTROUTING"
            for line in lines
        }
        for name in sorted(head for head in heads if head.startswith("KUBE-")):
            if content.chains.get(name, [])[:1] != [rule]:
                transaction.part(family_of(address), table).lines.append(f"-I {name} {rule}")
    return transaction


def _remove(transaction: Transaction, family: Family, tables: Tables) -> None:
    """Remove our chains, except those that the ipvs mode (if it is in use) or the kubelet needs.

    The kubelet writes its rule that guards the loopback once, when it starts, and does not detect that it is gone.
    """
    is_kubelets = family == 4 and not KUBELETS.isdisjoint(tables.get("mangle", EMPTY).chains)
    if is_kubelets and FIREWALL.name in tables.get("filter", EMPTY).chains:
        transaction.write(family, tables, {FIREWALL: LOOPBACK_GUARD}, (), compares_text=True)
    is_ipvs = "KUBE-NODE-PORT" in tables.get("nat", EMPTY).chains
    transaction.remove(
        family,
        tables,
        lambda table, name: is_ours(table, name) and not (is_ipvs and (table, name) in SHARED_WITH_IPVS),
        keep=(FIREWALL,) if is_kubelets else (),
    )
