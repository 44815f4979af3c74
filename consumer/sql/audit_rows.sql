-- What the ledger says about given orders, for comparison with log and gate: one look
-- into the index for each. See settle_decided.
select o.*
  from unnest($1::uuid[]) as w (id)
 cross join lateral (
       select id::text, activity_id, sku_id, user_id, quantity, status, release_epoch
         from orders
        where orders.id = w.id limit 1) o
