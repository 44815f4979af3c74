select partition, settled_seq, log_created from partitions
