-- Locks the SKU rows of a batch, in one order for everybody, and reads them as they
-- are after the lock: what follows in the transaction sees all that was committed
-- under it.
select s.activity_id, s.sku_id, s.stock, s.limit_per_user, s.price
  from skus s
  join (select distinct * from unnest($1::text[], $2::text[]) as w (activity_id, sku_id)) w
 using (activity_id, sku_id)
 order by s.activity_id, s.sku_id
   for update of s
