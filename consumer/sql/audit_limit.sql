-- Buyers with more live units than the limit, and their newest order.
select o.activity_id, o.sku_id, max(o.id::text), format('buyer %s has %s live units, the limit is %s',
       quote_literal(o.user_id), sum(o.quantity), s.limit_per_user)
  from orders o
  join skus s on s.activity_id = o.activity_id and s.sku_id = o.sku_id
 where o.status in ('pending_payment', 'confirmed', 'paid') and ($1 = '' or o.activity_id = $1)
 group by o.activity_id, o.sku_id, o.user_id, s.limit_per_user
having sum(o.quantity) > s.limit_per_user
 order by 1, 2, 3 limit $2
