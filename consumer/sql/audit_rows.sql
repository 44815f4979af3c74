-- What the ledger says about given orders, for comparison with log and gate.
select id::text, activity_id, sku_id, user_id, quantity, status, release_epoch
  from orders where id = any($1::uuid[])
