"""Simulated clients, one method a file."""

from trialrun.procedures.therapy.clients import consistent_mi, eeyore, patient_psi, roleplay_doh, sim_patient

__all__ = ["consistent_mi", "eeyore", "patient_psi", "roleplay_doh", "sim_patient"]
