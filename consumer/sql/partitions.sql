select partition, term, holder, settled_seq from partitions order by partition
