-- One id twice; or one Idempotency-Key of a buyer with two orders. A stale order was
-- never accepted, so its key may have been used again.
(select min(activity_id), min(sku_id), id::text, format('the order has %s rows', count(*))
   from orders
  where $1 = '' or activity_id = $1
  group by id having count(*) > 1
  order by id limit $2)
union all
(select activity_id, min(sku_id), max(id::text), format('one Idempotency-Key of buyer %s has %s orders',
        quote_literal(user_id), count(distinct id))
   from orders
  where key is not null and not (status = 'rejected' and reason is not distinct from 'stale') and ($1 = '' or activity_id = $1)
  group by activity_id, user_id, key having count(distinct id) > 1
  order by 3 limit $2)
