"""What the results of any study say: measures, conditions compared, effects of factors, failures, cost."""
