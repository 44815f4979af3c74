-- The last word: no unit is taken that is not there.
update skus s
   set stock = s.stock - w.n
  from unnest($1::text[], $2::text[], $3::int[]) as w (activity_id, sku_id, n)
 where s.activity_id = w.activity_id and s.sku_id = w.sku_id and s.stock >= w.n
