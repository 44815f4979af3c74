-- Fences the transaction: a settler of an older term finds no row.
select settled_seq from partitions where partition = $1 and term = $2 for update
