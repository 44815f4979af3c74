-- Locks the SKU rows of orders that are to be changed, in one order for everybody. An
-- order of something that is not for sale locks its whole activity: no snapshot of a
-- rebuild, which locks all of it, may come between what is read and what is written.
select 1
  from skus s
 where exists (
   select 1 from unnest($1::text[], $2::text[]) as w (activity_id, sku_id)
    where w.activity_id = s.activity_id
      and (w.sku_id = s.sku_id
           or not exists (select 1 from skus k where k.activity_id = w.activity_id and k.sku_id = w.sku_id)))
 order by s.activity_id, s.sku_id
   for update of s
