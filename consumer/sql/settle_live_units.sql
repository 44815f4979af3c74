-- Live units of the buyers of a batch.
select o.activity_id, o.sku_id, o.user_id, sum(o.quantity)::bigint
  from orders o
  join (select distinct * from unnest($1::text[], $2::text[], $3::text[]) as w (activity_id, sku_id, user_id)) w
 using (activity_id, sku_id, user_id)
 where o.status in ('pending_payment', 'confirmed', 'paid')
 group by 1, 2, 3
