"""The hosts of a gateway: their status, and the views of requests that each of them stores for the others."""
