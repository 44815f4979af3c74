-- Fences the transaction: a settler of an older term finds no row.
select 1 from partitions where partition = $1 and term = $2 for update
