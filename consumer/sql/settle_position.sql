update partitions set settled_seq = greatest(settled_seq, $2) where partition = $1
