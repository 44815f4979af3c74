-- The payment of an id, else the one that an order has.
select id, order_id::text, amount, state, coalesce(replacement::text, '')
  from payments
 where id = $1 or order_id = $2
 order by id = $1 desc
 limit 1
