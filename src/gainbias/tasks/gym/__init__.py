"""Tasks from environments: their models, episodes joined to continuing chains, learned policies."""
