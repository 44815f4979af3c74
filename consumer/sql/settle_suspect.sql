-- A gate that admitted in its own epoch what the ledger could not accept lies, and
-- is to be rebuilt.
update activities set suspect = 'it admitted an order that the ledger had to reject'
 where id = any($1::text[]) and suspect = ''
