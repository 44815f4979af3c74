-- The oldest of what is overdue. The time is that of the statement, so that the index
-- is read only as far as needed.
select id::text, activity_id, sku_id
  from orders
 where status = 'pending_payment' and pay_before <= statement_timestamp()
 order by pay_before limit $1
