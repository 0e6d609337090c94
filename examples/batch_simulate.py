"""Therapy sessions in a batch, with the options and names of PatientHub's page; docs/patienthub.md has it.

python -m examples.batch_simulate --clients patientPsi,consistentMI --therapists CBT --num_runs 10
"""

from trialrun.cli.scripts.batch_simulate import main
from trialrun.compat.patienthub.batch import BatchConfig, aggregate_results, run_batch

__all__ = ["BatchConfig", "aggregate_results", "main", "run_batch"]

if __name__ == "__main__":
    main()
