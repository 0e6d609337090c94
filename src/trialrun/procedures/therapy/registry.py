"""The methods of both sides by name. A new one is a file in `clients` or `therapists`, and a line here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trialrun.core.reading.catalogue import MethodFacts
from trialrun.core.study import Party
from trialrun.procedures.therapy import clients, people, therapists
from trialrun.procedures.therapy.actors import CLIENT, THERAPIST, Actor


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """One method: what the study file may say to it, and how an actor of it is made."""

    facts: MethodFacts
    make: Callable[[Party], Actor]


METHODS: Mapping[str, Mapping[str, Way]] = {
    CLIENT: {
        "basic": Way(facts=people.PROMPTED, make=people.Prompted),
        "consistentMI": Way(facts=clients.consistent_mi.FACTS, make=clients.consistent_mi.ConsistentMI),
        "eeyore": Way(facts=clients.eeyore.FACTS, make=clients.eeyore.Eeyore),
        "patientPsi": Way(facts=clients.patient_psi.FACTS, make=clients.patient_psi.PatientPsi),
        "roleplayDoh": Way(facts=clients.roleplay_doh.FACTS, make=clients.roleplay_doh.RoleplayDoh),
        "scripted": Way(facts=people.SCRIPTED, make=people.Reader),
        "simPatient": Way(facts=clients.sim_patient.FACTS, make=clients.sim_patient.SimPatient),
        "user": Way(facts=people.USER, make=people.Human),
    },
    THERAPIST: {
        "CBT": Way(facts=therapists.cbt.FACTS, make=therapists.cbt.CBT),
        "MI": Way(facts=therapists.mi.FACTS, make=therapists.mi.MI),
        "bad": Way(facts=therapists.bad.FACTS, make=therapists.bad.Bad),
        "basic": Way(facts=therapists.basic.FACTS, make=therapists.basic.Basic),
        "eliza": Way(facts=therapists.eliza.FACTS, make=therapists.eliza.Eliza),
        "scripted": Way(facts=people.SCRIPTED, make=people.Reader),
        "user": Way(facts=people.USER, make=people.Human),
    },
}


def default_method(party: Party) -> str:
    """The method of a party that names none."""
    return {"human": "user", "script": "scripted", "model": "basic"}[party.kind]
