-- Live units of the buyers of a batch: one look into the index for each buyer, however
-- many orders there are and whatever the statistics say of them.
select w.activity_id, w.sku_id, w.user_id, u.units
  from (select distinct * from unnest($1::text[], $2::text[], $3::text[]) as a (activity_id, sku_id, user_id)) w
 cross join lateral (
       select sum(o.quantity)::bigint as units
         from orders o
        where o.activity_id = w.activity_id and o.user_id = w.user_id and o.sku_id = w.sku_id
          and o.status in ('pending_payment', 'confirmed', 'paid')) u
 where u.units is not null
